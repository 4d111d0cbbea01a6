// Serves and fetches by HTTP: web serve ADDRESS, web get URL COUNT, web bad ADDRESS, web udp ADDRESS.
package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(address string) {
	http.HandleFunc("/body", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, "body")
	})
	http.HandleFunc("/peer", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, r.RemoteAddr, r.Context().Value(http.LocalAddrContextKey))
	})
	http.HandleFunc("/count", func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprintln(w, n, err)
	})
	check(http.ListenAndServe(address, nil))
}

// get fetches one URL many times at once, and posts what it got.
func get(url string, count int) {
	var all sync.WaitGroup
	for range count {
		all.Add(1)
		go func() {
			defer all.Done()
			got, err := http.Get(url)
			check(err)
			body, err := io.ReadAll(got.Body)
			check(err)
			fmt.Println(got.Status, len(body))
		}()
	}
	all.Wait()
}

// bad connects to where nobody listens, and has a connection reset.
func bad(address string) {
	_, err := net.Dial("tcp", address)
	fmt.Println(errors.Is(err, syscall.ECONNREFUSED))
	listener, err := net.Listen("tcp", address)
	check(err)
	_, err = net.Listen("tcp", address)
	fmt.Println(errors.Is(err, syscall.EADDRINUSE))
	client, err := net.Dial("tcp", address)
	check(err)
	server, err := listener.Accept()
	check(err)
	check(server.(*net.TCPConn).SetLinger(0))
	check(server.Close())
	_, err = client.Read(make([]byte, 1))
	fmt.Println(errors.Is(err, syscall.ECONNRESET))
	check(listener.Close())
	listener, err = net.Listen("tcp", address)
	check(err)
	check(listener.(*net.TCPListener).SetDeadline(time.Now().Add(50 * time.Millisecond)))
	_, err = listener.Accept()
	fmt.Println(errors.Is(err, os.ErrDeadlineExceeded))
}

// udp answers datagrams of two clients, one connected, one not.
func udp(address string) {
	server, err := net.ListenPacket("udp", address)
	check(err)
	go func() {
		for {
			data := make([]byte, 9000)
			n, from, err := server.ReadFrom(data)
			if err != nil {
				return
			}
			server.WriteTo([]byte(strings.ToUpper(string(data[:n]))), from)
		}
	}()
	connected, err := net.Dial("udp", address)
	check(err)
	open, err := net.ListenPacket("udp", strings.Split(address, ":")[0]+":0")
	check(err)
	to, err := net.ResolveUDPAddr("udp", address)
	check(err)
	for n := range 200 {
		word := fmt.Sprint("word", n)
		data := make([]byte, 100)
		_, err = connected.Write([]byte(word))
		check(err)
		got, err := connected.Read(data)
		check(err)
		_, err = open.WriteTo([]byte(word), to)
		check(err)
		second := make([]byte, 100)
		also, from, err := open.ReadFrom(second)
		check(err)
		want := strings.ToUpper(word)
		if string(data[:got]) != want || string(second[:also]) != want || from.String() != address {
			fmt.Println("wrong", string(data[:got]), string(second[:also]), from)
		}
	}
	connected.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
	_, err = connected.Read(make([]byte, 1))
	fmt.Println(errors.Is(err, os.ErrDeadlineExceeded))
}

func main() {
	switch os.Args[1] {
	case "serve":
		serve(os.Args[2])
	case "get":
		count, err := strconv.Atoi(os.Args[3])
		check(err)
		get(os.Args[2], count)
	case "bad":
		bad(os.Args[2])
	case "udp":
		udp(os.Args[2])
	}
}
