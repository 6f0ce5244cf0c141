package trace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRecorder(time.Now())
		ctx := With(t.Context(), r)
		end := Begin(ctx, "outer", "default/web")
		time.Sleep(2 * time.Millisecond)
		r.Add(Call, "Version", "", time.Millisecond, errors.New("no"))
		end()
		Begin(context.Background(), "of no command", "")()
		(*Recorder)(nil).Add(Phase, "of no command", "", 0, nil)
		got := r.Trace("podrun apply")
		want := []Span{{Phase, "outer", "default/web", 0, 2000, ""}, {Call, "Version", "", 1000, 1000, "no"}}
		if fmt.Sprint(got.Spans) != fmt.Sprint(want) || got.Duration != 2000 {
			t.Errorf("%+v", got)
		}
	})
}

func TestRecorderIsBounded(t *testing.T) {
	r := NewRecorder(time.Now())
	for range maxSpans + 3 {
		r.Add(Phase, "a", "", 0, nil)
	}
	if got := r.Trace(""); len(got.Spans) != maxSpans || got.Dropped != 3 {
		t.Errorf("%d spans, %d dropped", len(got.Spans), got.Dropped)
	}
}

var sample = Trace{Command: "podrun apply", Began: time.Unix(100, 0), Duration: 10_000, Spans: []Span{
	{Phase, "facts", "", 0, 5000, ""}, {Call, "Version", "", 9999, 1, "no"}, {Phase, "instant", "default/web", 20_000, 0, ""},
}}

func TestWriteText(t *testing.T) {
	var b strings.Builder
	if err := sample.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	want := "      0.00       5.00  ----------------                  facts\n" +
		"     10.00       0.00                                 =    Version (failed)\n" +
		"     20.00       0.00                                 -  instant default/web\n" +
		"     10.00             end\n"
	if _, lines, _ := strings.Cut(b.String(), "\n"); lines != want {
		t.Errorf("got:\n%swant:\n%s", lines, want)
	}
	if err := (Trace{Spans: []Span{{}}, Dropped: 2}).WriteText(&b); err != nil || !strings.Contains(b.String(), "2 more spans") {
		t.Errorf("%v:\n%s", err, b.String())
	}
}

func TestExportOf(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for name, test := range map[string]struct {
		env  map[string]string
		want *Export
	}{
		"nothing":   {nil, nil},
		"off":       {map[string]string{"ENDPOINT": "http://c:4318", "SDK": "true"}, nil},
		"none":      {map[string]string{"ENDPOINT": "http://c:4318", "EXPORTER": "none"}, nil},
		"base":      {map[string]string{"ENDPOINT": "http://c:4318/"}, &Export{URL: "http://c:4318/v1/traces", Service: "podrun", Timeout: exportTimeout}},
		"traces":    {map[string]string{"ENDPOINT": "http://c", "TRACES": "http://d/x", "NAME": "ci", "TIMEOUT": "50"}, &Export{URL: "http://d/x", Service: "ci", Timeout: 50 * time.Millisecond}},
		"headers":   {map[string]string{"TRACES": "http://d", "HEADERS": "a=b%20c, d=e=f,bad,g=%zz"}, &Export{URL: "http://d", Service: "podrun", Timeout: exportTimeout, Headers: map[string]string{"a": "b c", "d": "e=f"}}},
		"parent":    {map[string]string{"TRACES": "http://d", "PARENT": parent}, &Export{URL: "http://d", Service: "podrun", Timeout: exportTimeout, TraceID: parent[3:35], Parent: parent[36:52]}},
		"no parent": {map[string]string{"TRACES": "http://d", "PARENT": "00-00000000000000000000000000000000-b7ad6b7169203331-01", "TIMEOUT": "-1"}, &Export{URL: "http://d", Service: "podrun", Timeout: exportTimeout}},
	} {
		names := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "TRACES", "OTEL_SDK_DISABLED": "SDK", "OTEL_TRACES_EXPORTER": "EXPORTER",
			"OTEL_EXPORTER_OTLP_HEADERS": "HEADERS", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "TIMEOUT", "OTEL_SERVICE_NAME": "NAME", "TRACEPARENT": "PARENT"}
		got := ExportOf(func(variable string) string { return test.env[names[variable]] })
		if (got == nil) != (test.want == nil) {
			t.Errorf("%s: %+v", name, got)
			continue
		}
		if got != nil && len(test.want.Headers) == 0 {
			test.want.Headers = map[string]string{}
		}
		if got != nil && fmt.Sprint(*got) != fmt.Sprint(*test.want) {
			t.Errorf("%s: %+v, want %+v", name, *got, *test.want)
		}
	}
}

func TestSend(t *testing.T) {
	var body []byte
	var header http.Header
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		header = r.Header
		w.WriteHeader(status)
	}))
	defer server.Close()
	e := Export{URL: server.URL, Service: "ci", Timeout: time.Minute, Headers: map[string]string{"Authorization": "secret"}, Parent: "b7ad6b7169203331", TraceID: "0af7651916cd43dd8448eb211c80319c"}
	if err := e.Send(t.Context(), sample); err != nil {
		t.Fatal(err)
	}
	var got struct {
		ResourceSpans []struct {
			ScopeSpans []struct {
				Spans []struct {
					TraceID, SpanID, ParentSpanID, Name, StartTimeUnixNano, EndTimeUnixNano string
					Kind                                                                    int
					Status                                                                  struct{ Code int }
				}
			}
		}
	}
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	spans := got.ResourceSpans[0].ScopeSpans[0].Spans
	if len(spans) != 4 || spans[0].ParentSpanID != e.Parent || spans[1].ParentSpanID != spans[0].SpanID || spans[2].TraceID != e.TraceID {
		t.Fatalf("%s", body)
	}
	if s := spans[2]; s.Kind != otlpClient || s.Status.Code != otlpError || s.StartTimeUnixNano != "100009999000" || s.EndTimeUnixNano != "100010000000" {
		t.Errorf("%+v", s)
	}
	if header.Get("Authorization") != "secret" || header.Get("Content-Type") != "application/json" {
		t.Errorf("%v", header)
	}
	status = http.StatusTeapot
	if err := e.Send(t.Context(), sample); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("refused: %v", err)
	}
	server.Close()
	if err := e.Send(t.Context(), sample); err == nil {
		t.Error("sent to nobody")
	}
}

// TestSendFollowsNoRedirect: the headers, which are credentials, do not go to another host.
func TestSendFollowsNoRedirect(t *testing.T) {
	for _, code := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		asked := 0
		other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
		first := httptest.NewServer(http.RedirectHandler(strings.Replace(other.URL, "127.0.0.1", "localhost", 1), code))
		e := Export{URL: first.URL, Timeout: time.Minute, Headers: map[string]string{"api-key": "s3cret"}}
		if err := e.Send(t.Context(), sample); err == nil || !strings.Contains(err.Error(), strconv.Itoa(code)) || asked > 0 {
			t.Errorf("%d: %v; the other host was asked %d times", code, err, asked)
		}
		first.Close()
		other.Close()
	}
}

// TestSendErrors: what an error quotes of a response is bounded, and it does not have the
// URL, which may be a credential.
func TestSendErrors(t *testing.T) {
	for name, response := range map[string]string{
		"a long status":    "HTTP/1.1 500 " + strings.Repeat("x", 100<<10) + "\r\nContent-Length: 0\r\n\r\n",
		"no HTTP":          strings.Repeat("x", 100<<10) + "\r\n\r\n",
		"a malformed line": "HTTP/1.1 200 OK\r\n" + strings.Repeat("x", 100<<10) + "\r\n\r\n",
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			io.WriteString(conn, response)
			io.Copy(io.Discard, conn)
			conn.Close()
		}()
		err = Export{URL: "http://" + listener.Addr().String() + "/?key=s3cret", Timeout: time.Minute}.Send(t.Context(), sample)
		if err == nil || len(err.Error()) > 2000 || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %.200v", name, err)
		}
		listener.Close()
	}
}
