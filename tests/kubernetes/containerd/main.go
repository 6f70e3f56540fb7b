// containerd and its ctr in one, as their own mains make them.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	_ "github.com/containerd/containerd/v2/cmd/containerd/builtins"
	"github.com/containerd/containerd/v2/cmd/containerd/command"
	"github.com/containerd/containerd/v2/cmd/ctr/app"
)

func main() {
	program := command.App()
	if filepath.Base(os.Args[0]) == "ctr" {
		program = app.New()
	}
	if err := program.Run(os.Args); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", program.Name, err)
		os.Exit(1)
	}
}
