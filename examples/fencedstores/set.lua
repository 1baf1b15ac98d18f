-- Sets a value under a token. KEYS[1]: a hash with the fields token and value. ARGV[1]: token. ARGV[2]: value.
-- Returns the highest token: equal to ARGV[1] if it was written, above it if it was refused.

-- Numbers of Lua are doubles, which cannot hold all tokens: they are compared as decimal strings.
local function below(a, b)
    if #a ~= #b then
        return #a < #b
    end
    return a < b
end

if not string.match(ARGV[1], '^[1-9]%d*$') then
    return redis.error_reply('BADTOKEN not a decimal number above 0')
end
local highest = redis.call('HGET', KEYS[1], 'token')
if not highest then
    -- Evicted, expired, flushed or never made: whoever comes now may be stale.
    return redis.error_reply('NOFENCE set up with: HSETNX key token 0')
end
if below(ARGV[1], highest) then
    return highest
end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'value', ARGV[2])
return ARGV[1]
