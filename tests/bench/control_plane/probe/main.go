// Command probe posts objects to an API server and watches a namespace until so many pods exist in it. One process does both, so that
// all times are of one clock. It prints one JSON object: seconds from the first post to pods seen, by the watch.
//
//	probe -server URL -ca F -cert F -key F -namespace NS -pods N -post F [-copies N] [-connections C] [-bound]
//
// The file of -post holds a list of {"path": ..., "body": {...}, "patch": [...]}. The JSON patch, where there is one, is sent once its
// object is created. With -bound a pod counts when it is bound to a node. With -copies N it holds one such object, which is posted N times with
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
	// Of the object that was created.
	Patch json.RawMessage `json:"patch"`
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

// watch opens a watch of pods in the namespace and returns the channel on which the instant arrives at which each pod is new, or bound.
func watch(client *http.Client, server, namespace string, bound bool) <-chan time.Time {
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
	accept := fmt.Sprintf(slim, "")
	if bound {
		accept = "application/json"
	}
	follow := func() *http.Response {
		return get("?watch=true&resourceVersion="+version, accept)
	}
	stream := follow()
	seen := make(chan time.Time, 1<<16)
	counted := map[string]bool{}
	go func() {
		// A server that is short of time ends the watch of an observer that reads late; it resumes at the same version.
		for ; ; stream = follow() {
			decoder := json.NewDecoder(stream.Body)
			for {
				var event struct {
					Type   string `json:"type"`
					Object struct {
						Metadata metadata `json:"metadata"`
						Spec     struct {
							NodeName string `json:"nodeName"`
						} `json:"spec"`
					} `json:"object"`
				}
				if err := decoder.Decode(&event); err != nil {
					break
				}
				if event.Type == "ERROR" {
					fatal("the watch of %s cannot go on from version %s", namespace, version)
				}
				version = event.Object.Metadata.ResourceVersion
				name := event.Object.Metadata.Name
				if event.Type == "DELETED" || counted[name] || (bound && event.Object.Spec.NodeName == "") {
					continue
				}
				counted[name] = true
				seen <- time.Now()
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
	bound := flag.Bool("bound", false, "count a pod when it is bound")
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

	seen := watch(newClient(*ca, *cert, *key, 1), *server, *namespace, *bound)
	poster := newClient(*ca, *cert, *key, *connections)
	var said result
	var mutex sync.Mutex
	var workers sync.WaitGroup
	work, posted := make(chan int), make(chan struct{})
	begun := time.Now()
	send := func(method, url, content string, body []byte) error {
		request, err := http.NewRequest(method, url, bytes.NewReader(body))
		if err != nil {
			fatal("%v", err)
		}
		request.Header.Set("Content-Type", content)
		request.Header.Set("Accept", fmt.Sprintf(slim, "")) // an answer that costs less than the whole object
		answer, err := poster.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode >= 300 {
			tail, _ := io.ReadAll(answer.Body)
			return fmt.Errorf("%s: %s", answer.Status, tail)
		}
		_, err = io.Copy(io.Discard, answer.Body)
		return err
	}
	for range *connections {
		workers.Go(func() {
			for number := range work {
				err := send("POST", *server+paths[number], "application/json", bodies[number])
				if err == nil && *copies == 0 && len(objects[number].Patch) != 0 {
					var body struct {
						Metadata metadata `json:"metadata"`
					}
					if err := json.Unmarshal(bodies[number], &body); err != nil {
						fatal("%v", err)
					}
					url := *server + paths[number] + "/" + body.Metadata.Name
					err = send("PATCH", url, "application/json-patch+json", objects[number].Patch)
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
