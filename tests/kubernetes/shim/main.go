// What stands between containerd and runc, as its own main makes it.  It loads
// whatever is linked in, so it is a program of its own.
package main

import (
	"context"

	"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2/manager"
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2/task/plugin"
	"github.com/containerd/containerd/v2/pkg/shim"
)

func main() {
	shim.RunShim(context.Background(),
		manager.NewShimManager("io.containerd.runc.v2"))
}
