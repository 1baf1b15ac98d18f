package fencedstores

import (
	"context"
	_ "embed" // the script
	"fmt"
	"strconv"

	"github.com/leasehold-go/leasehold/fencing"
)

//go:embed set.lua
var setScript string

// Eval runs a script in Redis: EVAL of any client.
type Eval func(ctx context.Context, script string, keys []string, args ...any) (string, error)

// SetValue sets a key to value, unless a higher token has done so; then it returns a [*fencing.StaleError].
func SetValue(ctx context.Context, eval Eval, key string, token fencing.Token, value string) error {
	answer, err := eval(ctx, setScript, []string{key}, strconv.FormatInt(int64(token), 10), value)
	if err != nil {
		return fmt.Errorf("set %q: %w", key, err)
	}
	highest, err := strconv.ParseInt(answer, 10, 64)
	if err != nil {
		return fmt.Errorf("set %q: %w", key, err)
	}
	if fencing.Token(highest) != token {
		return &fencing.StaleError{Name: key, Token: token, Fence: fencing.Token(highest)}
	}
	return nil
}
