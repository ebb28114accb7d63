// Command probe is what the tests of the cluster run in their pods, since nothing with a shell is needed elsewhere.
//
//	probe serve ADDRESS    answer every HTTP request with the pod's host name, and log it
//	probe get URL          print the answer's body
//	probe resolve NAME     print the addresses of a name
//	probe api PATH         ask the API server with the pod's own token; print the status line and the body
//
// Called slidingserve it stands in for an engine: `serve` answers on the engines' port, `drain` has nothing to do.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const account = "/var/run/secrets/kubernetes.io/serviceaccount/"

func main() {
	if filepath.Base(os.Args[0]) == "slidingserve" {
		if len(os.Args) > 1 && os.Args[1] == "serve" {
			fail(http.ListenAndServe(":8000", http.HandlerFunc(answer)))
		}
		return
	}
	if len(os.Args) != 3 {
		fail(fmt.Errorf("usage: probe serve|get|resolve|api ARGUMENT"))
	}
	argument := os.Args[2]
	switch os.Args[1] {
	case "serve":
		fail(http.ListenAndServe(argument, http.HandlerFunc(answer)))
	case "get":
		request, err := http.NewRequest(http.MethodGet, argument, nil)
		fail(err)
		fetch(http.DefaultTransport, request)
	case "resolve":
		addresses, err := net.DefaultResolver.LookupHost(context.Background(), argument)
		fail(err)
		fmt.Println(strings.Join(addresses, " "))
	case "api":
		token, err := os.ReadFile(account + "token")
		fail(err)
		authority, err := os.ReadFile(account + "ca.crt")
		fail(err)
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(authority)
		request, err := http.NewRequest(http.MethodGet, "https://kubernetes.default.svc"+argument, nil)
		fail(err)
		request.Header.Set("Authorization", "Bearer "+string(token))
		fetch(&http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}, request)
	}
}

func answer(response http.ResponseWriter, request *http.Request) {
	name, _ := os.Hostname()
	fmt.Printf("%s %s from %s\n", request.Method, request.URL.Path, request.RemoteAddr)
	fmt.Fprintln(response, name)
}

func fetch(transport http.RoundTripper, request *http.Request) {
	client := http.Client{Transport: transport, Timeout: 5 * time.Second}
	response, err := client.Do(request)
	fail(err)
	fmt.Println(response.Status)
	_, err = io.Copy(os.Stdout, response.Body)
	fail(err)
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}
