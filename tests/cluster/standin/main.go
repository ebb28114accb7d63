// Command slidingserve, a stand-in: an "engine" of a few megabytes that serves, fails and stops as STAND_IN says.
//
//	serve          (the default) answer on PORT as an engine does
//	deaf           listen, and never be ready
//	lazy           be ready after ten seconds
//	die: TEXT      print TEXT to standard error and end with status 1
//	kill           end after five seconds as SIGKILL ends a process (a container's first cannot send it to itself)
//	eat            take memory until the kernel says no
//	slow           serve, and take twenty seconds to drain
//
// PUT /stand-in replaces what it says of itself: {"ready": true, "healthy": true, "state": {...}}; keys that are left
// out stay. `applied` of the state is read from the mounted settings unless the state given says otherwise.
// `slidingserve drain` returns at once, but of a slow one: there is nothing to drain. Called as `sh` it takes any
// command for that one.
package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

const settings = "/etc/slidingserve/slidingserve.json"

type saying struct {
	Ready   bool           `json:"ready"`
	Healthy bool           `json:"healthy"`
	State   map[string]any `json:"state"`
}

var (
	lock sync.Mutex
	says = saying{Ready: true, Healthy: true, State: map[string]any{}}
)

func main() {
	mode := os.Getenv("STAND_IN")
	if filepath.Base(os.Args[0]) == "sh" || (len(os.Args) > 1 && os.Args[1] == "drain") {
		if mode == "slow" {
			time.Sleep(20 * time.Second)
		}
		return
	}
	if text, found := strings.CutPrefix(mode, "die: "); found {
		fmt.Fprintln(os.Stderr, "INFO starting")
		fmt.Fprintln(os.Stderr, text)
		os.Exit(1)
	}
	switch mode {
	case "deaf":
		says.Ready = false
	case "lazy":
		says.Ready = false
		time.AfterFunc(10*time.Second, func() { lock.Lock(); says.Ready = true; lock.Unlock() })
	case "kill":
		time.AfterFunc(5*time.Second, func() { os.Exit(137) })
	case "eat":
		eat()
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	go func() { <-stop; os.Exit(0) }()
	http.HandleFunc("/slidingserve/v1/ready", func(w http.ResponseWriter, _ *http.Request) { flag(w, &says.Ready) })
	http.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) { flag(w, &says.Healthy) })
	http.HandleFunc("GET /slidingserve/v1/state", state)
	http.HandleFunc("PUT /stand-in", change)
	fmt.Fprintln(os.Stderr, http.ListenAndServe(":8000", nil))
	os.Exit(1)
}

// A process that ends at once may not be seen as killed by the kernel, and one that does not touch its pages
// takes none.
func eat() {
	var kept [][]byte
	for {
		block := make([]byte, 1<<20)
		for i := range block {
			block[i] = 1
		}
		kept = append(kept, block)
		if len(kept)%64 == 0 {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func flag(w http.ResponseWriter, good *bool) {
	lock.Lock()
	defer lock.Unlock()
	if !*good {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func state(w http.ResponseWriter, _ *http.Request) {
	lock.Lock()
	defer lock.Unlock()
	answer := map[string]any{"schemaVersion": 1, "version": "stand-in", "policy": "fcfs"}
	var mounted map[string]any
	if content, err := os.ReadFile(settings); err == nil && json.Unmarshal(content, &mounted) == nil {
		answer["applied"] = map[string]any{"revision": mounted["revision"], "generation": mounted["generation"]}
	}
	for key, value := range says.State {
		answer[key] = value
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(answer)
}

func change(w http.ResponseWriter, request *http.Request) {
	lock.Lock()
	defer lock.Unlock()
	if err := json.NewDecoder(request.Body).Decode(&says); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}
