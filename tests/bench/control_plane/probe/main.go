// Command probe posts objects to an API server and watches a namespace until so many pods exist in it. One process does both, so that
// all times are of one clock. It prints one JSON object: seconds from the first post to pods seen, by the watch.
//
//	probe -server URL -ca F -cert F -key F -namespace NS -pods N -post F [-copies N] [-connections C]
//
// The file of -post holds a list of {"path": ..., "body": {...}}. With -copies N it holds one such object, which is posted N times with
// the text `@NUMBER@` replaced by 0 to N - 1: the raw client that every controller is measured against. -connections is how many
// HTTP/1.1 connections post at the same time.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"sort"
	"strconv"
	"sync"
	"time"
)

const slim = "application/json;as=PartialObjectMetadata%s;g=meta.k8s.io;v=v1"

type object struct {
	Path string          `json:"path"`
	Body json.RawMessage `json:"body"`
}

type metadata struct {
	Name            string `json:"name"`
	ResourceVersion string `json:"resourceVersion"`
}

type result struct {
	Pods     int     `json:"pods"`
	First    float64 `json:"first"`
	Median   float64 `json:"median"`
	Last     float64 `json:"last"`
	Posted   float64 `json:"posted"`
	Refused  int     `json:"refused"`
	Sentence string  `json:"sentence,omitempty"`
}

func fatal(format string, words ...any) {
	fmt.Fprintf(os.Stderr, "probe: "+format+"\n", words...)
	os.Exit(1)
}

func newClient(ca, cert, key string, connections int) *http.Client {
	authority, err := os.ReadFile(ca)
	if err != nil {
		fatal("%v", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		fatal("%v", err)
	}
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}},
		MaxConnsPerHost:     connections,
		MaxIdleConnsPerHost: connections,
		TLSNextProto:        map[string]func(string, *tls.Conn) http.RoundTripper{}, // HTTP/1.1 alone
	}}
}

// watch opens a watch of pods in the namespace and returns the channel on which each new pod's instant arrives.
func watch(client *http.Client, server, namespace string) <-chan time.Time {
	get := func(query, accept string) *http.Response {
		request, _ := http.NewRequest("GET", server+"/api/v1/namespaces/"+namespace+"/pods"+query, nil)
		request.Header.Set("Accept", accept)
		answer, err := client.Do(request)
		if err != nil {
			fatal("%v", err)
		}
		if answer.StatusCode != 200 {
			fatal("watch of %s: %s", namespace, answer.Status)
		}
		return answer
	}
	list := get("?limit=1", fmt.Sprintf(slim, "List"))
	var page struct {
		Metadata metadata   `json:"metadata"`
		Items    []struct{} `json:"items"`
	}
	if err := json.NewDecoder(list.Body).Decode(&page); err != nil {
		fatal("list of pods: %v", err)
	}
	list.Body.Close()
	if len(page.Items) != 0 {
		fatal("namespace %s holds pods before the first post", namespace)
	}
	version := page.Metadata.ResourceVersion
	follow := func() *http.Response {
		return get("?watch=true&resourceVersion="+version, fmt.Sprintf(slim, ""))
	}
	stream := follow()
	seen := make(chan time.Time, 1<<16)
	go func() {
		// A server that is short of time ends the watch of an observer that reads late; it resumes at the same version.
		for ; ; stream = follow() {
			decoder := json.NewDecoder(stream.Body)
			for {
				var event struct {
					Type   string `json:"type"`
					Object struct {
						Metadata metadata `json:"metadata"`
					} `json:"object"`
				}
				if err := decoder.Decode(&event); err != nil {
					break
				}
				if event.Type == "ERROR" {
					fatal("the watch of %s cannot go on from version %s", namespace, version)
				}
				version = event.Object.Metadata.ResourceVersion
				if event.Type == "ADDED" {
					seen <- time.Now()
				}
			}
			stream.Body.Close()
		}
	}()
	return seen
}

func main() {
	server := flag.String("server", "", "URL of the API server")
	ca := flag.String("ca", "", "file of the authority's certificate")
	cert := flag.String("cert", "", "file of the client's certificate")
	key := flag.String("key", "", "file of the client's key")
	namespace := flag.String("namespace", "", "namespace to watch")
	pods := flag.Int("pods", 0, "pods to wait for")
	post := flag.String("post", "", "file of what to post")
	copies := flag.Int("copies", 0, "post the one object of the file so many times")
	connections := flag.Int("connections", 16, "connections that post at the same time")
	timeout := flag.Duration("timeout", 10*time.Minute, "when to give up")
	flag.Parse()

	text, err := os.ReadFile(*post)
	if err != nil {
		fatal("%v", err)
	}
	var objects []object
	if err := json.Unmarshal(text, &objects); err != nil || len(objects) == 0 {
		fatal("%s: not a list of objects: %v", *post, err)
	}
	bodies := make([][]byte, 0, max(*copies, len(objects)))
	paths := make([]string, 0, cap(bodies))
	if *copies > 0 {
		for number := range *copies {
			bodies = append(bodies, bytes.ReplaceAll(objects[0].Body, []byte("@NUMBER@"), []byte(strconv.Itoa(number))))
			paths = append(paths, objects[0].Path)
		}
	} else {
		for _, one := range objects {
			bodies = append(bodies, one.Body)
			paths = append(paths, one.Path)
		}
	}

	seen := watch(newClient(*ca, *cert, *key, 1), *server, *namespace)
	poster := newClient(*ca, *cert, *key, *connections)
	var said result
	var mutex sync.Mutex
	var workers sync.WaitGroup
	work, posted := make(chan int), make(chan struct{})
	begun := time.Now()
	for range *connections {
		workers.Go(func() {
			for number := range work {
				request, err := http.NewRequest("POST", *server+paths[number], bytes.NewReader(bodies[number]))
				if err != nil {
					fatal("%v", err)
				}
				request.Header.Set("Content-Type", "application/json")
				request.Header.Set("Accept", fmt.Sprintf(slim, "")) // an answer that costs less than the whole object
				answer, err := poster.Do(request)
				if err == nil {
					var tail []byte
					if answer.StatusCode >= 300 {
						tail, _ = io.ReadAll(answer.Body)
						err = fmt.Errorf("%s: %s", answer.Status, tail)
					} else {
						_, err = io.Copy(io.Discard, answer.Body)
					}
					answer.Body.Close()
				}
				if err != nil {
					mutex.Lock()
					said.Refused++
					said.Sentence = err.Error()
					mutex.Unlock()
				}
			}
		})
	}
	go func() {
		for number := range bodies {
			work <- number
		}
		close(work)
		workers.Wait()
		said.Posted = time.Since(begun).Seconds()
		close(posted)
	}()

	times := make([]float64, 0, *pods)
	deadline := time.After(*timeout)
	for len(times) < *pods {
		select {
		case at := <-seen:
			times = append(times, at.Sub(begun).Seconds())
		case <-deadline:
			mutex.Lock()
			fatal("%d of %d pods after %s; %d posts refused: %s", len(times), *pods, *timeout, said.Refused, said.Sentence)
		}
	}
	<-posted
	sort.Float64s(times)
	said.Pods, said.First, said.Median, said.Last = len(times), times[0], times[len(times)/2], times[len(times)-1]
	if err := json.NewEncoder(os.Stdout).Encode(said); err != nil {
		fatal("%v", err)
	}
}
