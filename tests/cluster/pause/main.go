// Command pause holds namespaces open and reaps the orphans in them: the first process of every pod's sandbox, and of
// the node that the local cluster runs in.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGINT, syscall.SIGTERM)
	for {
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if pid <= 0 || (err != nil && err != syscall.EINTR) {
				break
			}
		}
		if received := <-signals; received != syscall.SIGCHLD {
			os.Exit(0)
		}
	}
}
