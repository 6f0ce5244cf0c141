package event

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxMessage is the maximum length of an event's message, in bytes. It is the kubelet's
// longest message: 10 KiB of a probe's output (pkg/probe/exec) and the words before it. A
// kubelet sends core/v1 events, for which the API server has no limit; the limit of 1,024
// bytes applies to events.k8s.io (pkg/apis/core/validation/events.go).
const MaxMessage = 10<<10 + 512

// Cut truncates a message to MaxMessage bytes, at a character boundary, and appends how many
// bytes are missing.
func Cut(message string) string {
	if len(message) <= MaxMessage {
		return message
	}
	const longestNote = 64
	kept := CutBytes(message, MaxMessage-longestNote)
	return kept + "... [" + strconv.Itoa(len(message)-len(kept)) + " more bytes]"
}

// CutBytes returns at most the first n bytes of a text, cut at a character boundary. The
// result does not keep the original text in memory.
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

// When events that differ only in their message are aggregated, and how many a Correlator
// remembers, as in client-go's EventCorrelator (tools/record/events_cache.go).
const (
	maxSimilar      = 10 // the tenth message and later ones are aggregated
	similarInterval = 10 * time.Minute
	maxKnown        = 4096
	// maxKnownBytes limits the total size of the remembered messages, because the message of a
	// failed probe has up to 10 KiB. A full journal is a quarter of this size.
	maxKnownBytes = 2 << 20
)

// combined begins the message of an event that stands for similar events.
const combined = "(combined from similar events): "

// Correlator aggregates repeated events like client-go's EventCorrelator, which the kubelet
// uses: events that differ only in their time become one event, and so do the tenth and later
// events within 10 minutes that differ only in their message. There are two differences: it
// never drops events because of their rate, as there is no API server to protect; and only
// events of the same container count as similar, because the starts of ten containers are not
// repetitions.
//
// The zero value is ready to use. It is not safe for concurrent use.
type Correlator struct {
	known   map[key]Event
	bytes   int             // total size of the messages in known
	similar map[key]similar // the key has no message
	kept    int             // size of similar after it was last bounded
}

type key struct{ uid, namespace, pod, kind, reason, fieldPath, message string }

// similar contains the messages of a reason, except those that were combined.
type similar struct {
	messages []string
	last     time.Time
}

// Add adds an event and returns its aggregated form: with Count and First and, if it stands
// for similar events, with the prefix combined.
func (c *Correlator) Add(e Event) Event {
	if c.known == nil {
		c.known, c.similar = map[key]Event{}, map[key]similar{}
	}
	group := key{e.UID, e.Namespace, e.Pod, e.Type, e.Reason, e.FieldPath, ""}
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

// combines reports whether an event exceeds the number of similar events that are kept
// separate. If not, it records the event's message.
func (c *Correlator) combines(group key, e Event) bool {
	s := c.similar[group]
	// An event that the caller has already aggregated covers the time since it first occurred.
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

// bound forgets the oldest events, and similar messages that are older than similarInterval.
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
	if len(c.similar) <= min(2*c.kept+64, maxKnown) { // do not clean up at every event
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

// Forget drops the events of one container of a pod, so that their count restarts at one.
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

// Correlate aggregates events, which must be ordered by time, and returns them ordered by
// their last occurrence.
func Correlate(events []Event) []Event {
	var c Correlator
	at := map[key]int{}
	var out []Event
	for _, e := range events {
		e = c.Add(e)
		k := key{e.UID, e.Namespace, e.Pod, e.Type, e.Reason, e.FieldPath, e.Message}
		if strings.HasPrefix(e.Message, combined) {
			k.message = combined
		}
		if i, ok := at[k]; ok && e.Count > 1 { // Count is 1 if c has forgotten the event since then
			out[i] = e
			continue
		}
		at[k] = len(out)
		out = append(out, e)
	}
	slices.SortStableFunc(out, func(a, b Event) int { return a.Time.Compare(b.Time) })
	return out
}
