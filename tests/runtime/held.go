// Collects garbage and passes messages between two goroutines, as often as it says.
//
//	go run held.go
//
// It prints "ready", reads a line, and prints what it did.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
)

const (
	collections = 20
	messages    = 1000
)

var keep [][]byte

func main() {
	for i := 0; i < 2000; i++ {
		keep = append(keep, make([]byte, 4096))
	}
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := 0; i < collections; i++ {
		runtime.GC()
	}
	ping, pong := make(chan int), make(chan int)
	go func() {
		for range ping {
			pong <- 1
		}
	}()
	for i := 0; i < messages; i++ {
		ping <- 1
		<-pong
	}
	runtime.ReadMemStats(&after)
	cycles := after.NumGC - before.NumGC
	fmt.Println("collections", cycles)
	// Two for each collection, and one for each reading of the statistics.
	fmt.Println("stops", 2*cycles+2)
	fmt.Println("stopped_ns", after.PauseTotalNs-before.PauseTotalNs)
	fmt.Println("messages", 2*messages)
}
