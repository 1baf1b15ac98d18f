package torture

import "time"

// maxStep is how far the server's clock is set at most.
const maxStep = 3 * time.Second
