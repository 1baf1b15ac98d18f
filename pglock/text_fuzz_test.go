package pglock

import "strings"

// storable says, apart from the code, what a text column of a UTF-8 database takes: no zero byte, and each code point in its
// shortest form, surrogates left out (RFC 3629, and PostgreSQL manual, 24.3).
func storable(s string) bool {
	for i := 0; i < len(s); {
		b, rest, least := s[i], 0, rune(0)
		code := rune(b)
		switch {
		case b == 0:
			return false
		case b < 0x80:
		case b&0xe0 == 0xc0:
			rest, least, code = 1, 0x80, rune(b&0x1f)
		case b&0xf0 == 0xe0:
			rest, least, code = 2, 0x800, rune(b&0x0f)
		case b&0xf8 == 0xf0:
			rest, least, code = 3, 0x10000, rune(b&0x07)
		default:
			return false
		}
		for range rest {
			i++
			if i == len(s) || s[i]&0xc0 != 0x80 {
				return false
			}
			code = code<<6 | rune(s[i]&0x3f)
		}
		if code < least || code > 0x10ffff || code >= 0xd800 && code <= 0xdfff {
			return false
		}
		i++
	}
	return true
}

// repeated puts a part together, so that the fuzzer comes to lengths around the limits without finding them byte by byte.
func repeated(part string, times, most int) string {
	if len(part) == 0 {
		return ""
	}
	return strings.Repeat(part, min(max(times, 1), most/len(part)+1))
}
