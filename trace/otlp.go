package trace

import (
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Export is where a trace goes as OpenTelemetry spans.
type Export struct {
	URL     string
	Headers map[string]string
	Service string
	Timeout time.Duration
	// TraceID and Parent are the trace and the span that the command is part of, in hex;
	// empty for a trace of its own.
	TraceID, Parent string
}

// exportTimeout is OTEL_EXPORTER_OTLP_TIMEOUT's default here. OpenTelemetry's is 10 s, for
// which no one wants to wait at the end of a command.
const exportTimeout = 2 * time.Second

// ExportOf reads the standard variables
// (https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/, and
// protocol/exporter there), of which getenv has the values. It is nil where they name no
// endpoint or turn traces off. Those for traces win over those for all signals; trace
// context comes by TRACEPARENT (W3C).
func ExportOf(getenv func(string) string) *Export {
	of := func(name string) string {
		if v := getenv("OTEL_EXPORTER_OTLP_TRACES_" + name); v != "" {
			return v
		}
		return getenv("OTEL_EXPORTER_OTLP_" + name)
	}
	e := &Export{URL: getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), Service: getenv("OTEL_SERVICE_NAME"), Timeout: exportTimeout, Headers: map[string]string{}}
	if base := getenv("OTEL_EXPORTER_OTLP_ENDPOINT"); e.URL == "" && base != "" {
		e.URL = strings.TrimSuffix(base, "/") + "/v1/traces"
	}
	exporter := getenv("OTEL_TRACES_EXPORTER")
	if e.URL == "" || strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || exporter != "" && exporter != "otlp" {
		return nil
	}
	if e.Service == "" {
		e.Service = "podrun"
	}
	if ms, err := strconv.Atoi(of("TIMEOUT")); err == nil && ms > 0 {
		e.Timeout = time.Duration(ms) * time.Millisecond
	}
	for pair := range strings.SplitSeq(of("HEADERS"), ",") {
		name, value, ok := strings.Cut(pair, "=")
		if value, err := url.PathUnescape(strings.TrimSpace(value)); ok && err == nil {
			e.Headers[strings.TrimSpace(name)] = value
		}
	}
	e.TraceID, e.Parent = parseParent(getenv("TRACEPARENT"))
	return e
}

// parseParent takes 00-<trace>-<span>-<flags> apart; both are empty where it is not that.
func parseParent(text string) (trace, span string) {
	parts := strings.Split(text, "-")
	if len(parts) < 4 || len(parts[0]) != 2 || !isID(parts[1], 16) || !isID(parts[2], 8) {
		return "", ""
	}
	return parts[1], parts[2]
}

// isID reports whether text is an ID of that many bytes, which are not all 0.
func isID(text string, bytes int) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) == bytes && strings.Trim(text, "0") != ""
}

// The messages of OTLP's JSON form (opentelemetry-proto, trace/v1/trace.proto).
type (
	otlpValue struct {
		String string `json:"stringValue"`
	}
	otlpAttribute struct {
		Key   string    `json:"key"`
		Value otlpValue `json:"value"`
	}
	otlpStatus struct {
		Code    int    `json:"code"`
		Message string `json:"message,omitempty"`
	}
	otlpSpan struct {
		TraceID    string          `json:"traceId"`
		SpanID     string          `json:"spanId"`
		Parent     string          `json:"parentSpanId,omitempty"`
		Name       string          `json:"name"`
		Kind       int             `json:"kind"`
		Start      string          `json:"startTimeUnixNano"`
		End        string          `json:"endTimeUnixNano"`
		Attributes []otlpAttribute `json:"attributes,omitempty"`
		Status     *otlpStatus     `json:"status,omitempty"`
	}
	otlpScope struct {
		Scope struct {
			Name string `json:"name"`
		} `json:"scope"`
		Spans []otlpSpan `json:"spans"`
	}
	otlpResource struct {
		Resource struct {
			Attributes []otlpAttribute `json:"attributes"`
		} `json:"resource"`
		Scopes []otlpScope `json:"scopeSpans"`
	}
)

// Kinds of spans, and the status of one that failed, of trace.proto.
const (
	otlpInternal = 1
	otlpClient   = 3
	otlpError    = 2
)

// OTLP returns the body of an export: the command is a span, and all others are its
// children. IDs makes random IDs of so many bytes, in hex.
func (t Trace) OTLP(e Export, ids func(bytes int) string) ([]byte, error) {
	trace := e.TraceID
	if trace == "" {
		trace = ids(16)
	}
	nano := func(us int64) string { return strconv.FormatInt(t.Began.UnixNano()+us*1000, 10) }
	root := otlpSpan{TraceID: trace, SpanID: ids(8), Parent: e.Parent, Name: t.Command, Kind: otlpInternal, Start: nano(0), End: nano(t.Duration)}
	spans := []otlpSpan{root}
	for _, s := range t.Spans {
		o := otlpSpan{TraceID: trace, SpanID: ids(8), Parent: root.SpanID, Name: s.Name, Kind: otlpInternal, Start: nano(s.Begin), End: nano(s.Begin + s.Duration)}
		if s.Kind == Call {
			o.Kind = otlpClient
			o.Attributes = append(o.Attributes, otlpAttribute{"rpc.method", otlpValue{s.Name}})
		}
		if s.Object != "" {
			o.Attributes = append(o.Attributes, otlpAttribute{"podrun.object", otlpValue{s.Object}})
		}
		if s.Error != "" {
			o.Status = &otlpStatus{Code: otlpError, Message: s.Error}
		}
		spans = append(spans, o)
	}
	scope := otlpScope{Spans: spans}
	scope.Scope.Name = "podrun"
	resource := otlpResource{Scopes: []otlpScope{scope}}
	resource.Resource.Attributes = []otlpAttribute{{"service.name", otlpValue{e.Service}}}
	return json.Marshal(map[string][]otlpResource{"resourceSpans": {resource}})
}
