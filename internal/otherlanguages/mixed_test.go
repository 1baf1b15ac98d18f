package otherlanguages

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMixed_TokensRiseAndLeasesExclude(t *testing.T) {
	t.Parallel()
	p := findPrograms(t)
	all := writers()
	for first := range all {
		// The first one meets tables in which no cluster is entered.
		t.Run(all[first].language+" is first", func(t *testing.T) {
			t.Parallel()
			place := newPlace(t, p)
			for i := range 2 * len(all) {
				w := all[(first+i)%len(all)]
				customer := string(rune('a' + i))
				require.Equal(t, fmt.Sprintf("invoiced %s with token %d", customer, i+1), w.run(t, place, customer))
			}
			require.Equal(t, []int64{1, 2, 3, 4, 5, 6, 7, 8}, place.tokens(t))
		})
	}
	for _, holder := range all {
		t.Run(holder.language+" holds", func(t *testing.T) {
			t.Parallel()
			place := newPlace(t, p)
			open := place.block(t, "a")
			said := holder.start(t, place, "a")
			place.awaitBlocked(t)
			for _, other := range all {
				require.Regexp(t, fmt.Sprintf(`^skipped: %s is held by ['"]%s['"] with token 1$`, name, holder.label), other.run(t, place, "b"),
					other.language)
			}
			open()
			require.Equal(t, "invoiced a with token 1", <-said)
			require.Equal(t, "invoiced b with token 2", all[0].run(t, place, "b"), "released at the end")
		})
	}
	for _, stale := range all {
		for _, next := range all {
			t.Run(stale.language+" is stale after a grant to "+next.language, func(t *testing.T) {
				t.Parallel()
				place := newPlace(t, p)
				open := place.block(t, "a")
				said := stale.start(t, place, "a")
				place.awaitBlocked(t)
				place.expire(t)
				require.Equal(t, "invoiced b with token 2", next.run(t, place, "b"))
				open()
				require.Regexp(t, "^refused: ", <-said)
				require.Equal(t, []int64{2}, place.tokens(t), "nothing was written by the stale one")
				require.EqualValues(t, 2, value[int64](t, place, "SELECT token FROM job_fences WHERE name = $1", name))
			})
		}
	}
}
