// Drives a running service, which the environment names, through the AWS SDK for Go v2.
// Prints a line of JSON for each scenario.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
)

// A scenario panics with what it found wrong.
type scenario struct {
	name string
	run  func()
}

type result struct {
	Scenario string `json:"scenario"`
	OK       bool   `json:"ok"`
	Error    string `json:"error,omitempty"`
}

func main() {
	connect()
	failed := false
	out := json.NewEncoder(os.Stdout)
	ofQueues := slices.Concat(queues, messages, fifo, deadLetters, access, consuming)
	ofTopics := slices.Concat(topics, subscriptions, fifoTopics, phones)
	for _, each := range slices.Concat(ofQueues, ofTopics) {
		wrong := try(each.run)
		must(0, out.Encode(result{Scenario: each.name, OK: wrong == "", Error: wrong}))
		failed = failed || wrong != ""
	}
	if failed {
		os.Exit(1)
	}
}

func try(run func()) (wrong string) {
	defer func() {
		if found := recover(); found != nil {
			wrong = fmt.Sprintf("%v\n%s", found, debug.Stack())
		}
	}()
	run()
	return ""
}
