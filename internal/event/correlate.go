package event

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxMessage is the maximum length of an event's message, in bytes. The kubelet's longest message
// has this length: up to 10 KiB of a probe's output (pkg/probe/exec), and the text before the
// output. A kubelet sends core/v1 events. The API server has no limit for them; its limit of 1,024
// bytes is for events.k8s.io (pkg/apis/core/validation/events.go).
const MaxMessage = 10<<10 + 512

// Cut truncates a message to MaxMessage bytes, at a character boundary. It appends the number of
// removed bytes.
func Cut(message string) string {
	if len(message) <= MaxMessage {
		return message
	}
	const longestNote = 64
	kept := CutBytes(message, MaxMessage-longestNote)
	return kept + "... [" + strconv.Itoa(len(message)-len(kept)) + " more bytes]"
}

// CutBytes returns the first n bytes of a text. If a character is split at this position,
// CutBytes omits it. The result does not keep the original text in memory.
func CutBytes(text string, n int) string {
	if len(text) <= n {
		return text
	}
	end := n
	for end > n-utf8.UTFMax && end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.Clone(text[:end])
}

// A Correlator aggregates events that differ only in their message, and remembers a limited
// number of events. These limits are those of client-go's EventCorrelator
// (tools/record/events_cache.go).
const (
	// The tenth message and later ones are aggregated.
	maxSimilar      = 10
	similarInterval = 10 * time.Minute
	maxKnown        = 4096
	// maxKnownBytes limits the total size of the remembered messages, because the message of a
	// failed probe has up to 10 KiB. For comparison, a full journal has a quarter of this size.
	maxKnownBytes = 2 << 20
)

// combined is the beginning of the message of an event that represents similar events.
const combined = "(combined from similar events): "

// Correlator aggregates repeated events, like client-go's EventCorrelator in the kubelet. Events
// that differ only in their time become one event. If ten events within 10 minutes differ only in
// their message, the tenth and the later ones become one event. There are two differences to
// client-go. Correlator never drops events because of their rate, because it need not protect an
// API server. It also considers only events of the same container as similar, because the starts of
// ten containers are not repetitions.
//
// The zero value is ready to use. A Correlator is not safe for concurrent use.
type Correlator struct {
	known map[key]Event
	// bytes is the total size of the messages in known.
	bytes int
	// The keys have no message.
	similar map[key]similar
	// kept is the length of the map similar when bound last removed entries.
	kept int
}

type key struct{ uid, namespace, object, name, kind, reason, fieldPath, message string }

// keyOf returns the key of an event, with the given message.
func keyOf(e Event, message string) key {
	object, name := e.Object()
	return key{e.UID, e.Namespace, object, name, e.Type, e.Reason, e.FieldPath, message}
}

// similar contains the messages of a reason, except those that were combined.
type similar struct {
	messages []string
	last     time.Time
}

// Add adds an event and returns the aggregated event. The result has the fields Count and First. If
// it represents several similar events, its message begins with combined.
func (c *Correlator) Add(e Event) Event {
	if c.known == nil {
		c.known, c.similar = map[key]Event{}, map[key]similar{}
	}
	group := keyOf(e, "")
	k := group
	if c.combines(group, e) {
		k.message = combined
		e.Message = combined + strings.TrimPrefix(e.Message, combined)
	} else {
		k.message = e.Message
	}
	count, first := max(1, e.Count), e.began()
	if before, ok := c.known[k]; ok {
		count += max(1, before.Count)
		if began := before.began(); began.Before(first) {
			first = began
		}
		if before.Time.After(e.Time) {
			e.Time = before.Time
		}
	}
	e.Count, e.First = count, first
	if count == 1 {
		e.Count, e.First = 0, time.Time{}
	}
	if _, ok := c.known[k]; !ok {
		c.bytes += len(k.message)
	}
	c.known[k] = e
	c.bound(e.Time)
	return e
}

// combines reports whether an event must be combined with similar events, because the maximum
// number of separate ones is reached. If not, it records the event's message.
func (c *Correlator) combines(group key, e Event) bool {
	s := c.similar[group]
	// If the caller has already aggregated an event, the event covers the time since it first
	// occurred.
	if e.began().Sub(s.last) > similarInterval {
		s.messages = nil
	}
	if e.Time.After(s.last) {
		s.last = e.Time
	}
	combines := strings.HasPrefix(e.Message, combined)
	if !combines && !slices.Contains(s.messages, e.Message) {
		if combines = len(s.messages) >= maxSimilar-1; !combines {
			s.messages = append(s.messages, e.Message)
		}
	}
	c.similar[group] = s
	return combines
}

// bound removes the oldest events if c remembers too many. It also forgets similar messages that
// are older than similarInterval.
func (c *Correlator) bound(now time.Time) {
	for len(c.known) > 1 && (len(c.known) > maxKnown || c.bytes > maxKnownBytes) {
		var oldest key
		var at time.Time
		for k, e := range c.known {
			if at.IsZero() || e.Time.Before(at) {
				oldest, at = k, e.Time
			}
		}
		c.forget(oldest)
	}
	// For efficiency, bound does not clean up at every event.
	if len(c.similar) <= min(2*c.kept+64, maxKnown) {
		return
	}
	maps.DeleteFunc(c.similar, func(_ key, s similar) bool { return now.Sub(s.last) > similarInterval })
	for len(c.similar) > maxKnown {
		var oldest key
		var at time.Time
		for k, s := range c.similar {
			if at.IsZero() || s.last.Before(at) {
				oldest, at = k, s.last
			}
		}
		delete(c.similar, oldest)
	}
	c.kept = len(c.similar)
}

func (c *Correlator) forget(k key) {
	delete(c.known, k)
	c.bytes -= len(k.message)
}

// Forget removes the remembered events of one container of a pod. The next such event has a count
// of one again.
func (c *Correlator) Forget(uid, fieldPath string) {
	for k := range c.known {
		if k.uid == uid && k.fieldPath == fieldPath {
			c.forget(k)
		}
	}
	for k := range c.similar {
		if k.uid == uid && k.fieldPath == fieldPath {
			delete(c.similar, k)
		}
	}
}

// Correlate aggregates events that are ordered by time. It returns the results ordered by their
// last occurrence.
func Correlate(events []Event) []Event {
	var c Correlator
	at := map[key]int{}
	var out []Event
	for _, e := range events {
		e = c.Add(e)
		k := keyOf(e, e.Message)
		if strings.HasPrefix(e.Message, combined) {
			k.message = combined
		}
		// Count is 1 if c no longer remembered the earlier event.
		if i, ok := at[k]; ok && e.Count > 1 {
			out[i] = e
			continue
		}
		at[k] = len(out)
		out = append(out, e)
	}
	slices.SortStableFunc(out, func(a, b Event) int { return a.Time.Compare(b.Time) })
	return out
}
