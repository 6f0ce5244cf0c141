package patience

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// TestDeadline checks that a read ends after a number of ticks.
func TestDeadline(t *testing.T) {
	one, other := net.Pipe()
	defer other.Close()
	Deadline(t, one, 1)
	if _, err := one.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the read ended with %v", err)
	}
}

// TestClient checks that the body of a response can be read after the request, and that a request ends when the
// limit of its client has ended.
func TestClient(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
	}))
	defer server.Close()
	var client *http.Client
	t.Run("within the limit", func(t *testing.T) {
		client = Client(t, &http.Transport{DisableKeepAlives: true})
		resp, err := client.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if data, err := io.ReadAll(resp.Body); err != nil || len(data) != 1<<20 {
			t.Errorf("%d bytes, %v", len(data), err)
		}
	})
	if _, err := client.Get(server.URL); err == nil { // the end of the subtest has ended the limit
		t.Error("a request succeeded after the end of the limit")
	}
}
