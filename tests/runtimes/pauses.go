// Collects garbage seven times, then runs more goroutines than there are processors.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"
)

var kept [][]byte

func main() {
	runtime.GOMAXPROCS(1)
	for i := 0; i < 10000; i++ {
		kept = append(kept, make([]byte, 1000))
	}
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := 0; i < 7; i++ {
		runtime.GC()
	}
	runtime.ReadMemStats(&after)
	var all sync.WaitGroup
	for i := 0; i < 4; i++ {
		all.Add(1)
		// The one processor serves them one after another: the last waits for the first three, except
		// that a goroutine is preempted after 10 ms.
		go func() {
			for start := time.Now(); time.Since(start) < 5*time.Millisecond; {
			}
			all.Done()
		}()
	}
	all.Wait()
	fmt.Println("collections", after.NumGC-before.NumGC)
	fmt.Println("paused_ns", after.PauseTotalNs-before.PauseTotalNs)
}
