package event

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxMessage is the longest message of an event, in bytes: the longest of the
// kubelet's, a probe's 10 KiB of output (pkg/probe/exec) and the words before
// them. A kubelet sends core/v1 events, for which the API server has no limit;
// the 1,024 bytes are a limit of events.k8s.io (pkg/apis/core/validation/events.go).
const MaxMessage = 10<<10 + 512

// Cut returns a message of at most MaxMessage bytes that says how much of it is
// missing. It cuts between characters.
func Cut(message string) string {
	if len(message) <= MaxMessage {
		return message
	}
	const longestNote = 64
	kept := CutBytes(message, MaxMessage-longestNote)
	return kept + "... [" + strconv.Itoa(len(message)-len(kept)) + " more bytes]"
}

// CutBytes returns at most the first n bytes of a text, cut between characters.
// The result does not keep a longer text in memory.
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

// When events that differ only in their message are aggregated, and how much a
// Correlator remembers, as in client-go's EventCorrelator
// (tools/record/events_cache.go).
const (
	maxSimilar      = 10 // the tenth message is aggregated
	similarInterval = 10 * time.Minute
	maxKnown        = 4096
	// maxKnownBytes bounds the messages of what is known: probes say up to 10 KiB. All
	// of a journal is a quarter of it.
	maxKnownBytes = 2 << 20
)

// combined begins the message of an event that stands for similar ones.
const combined = "(combined from similar events): "

// Correlator counts events that come again, as client-go's EventCorrelator does
// for the kubelet: those that agree in all but their time become one, and so do
// those that differ only in their message from the tenth within 10 minutes on.
// Two things differ: no event is dropped for coming too often, since no API
// server has to be spared, and only events of one container are similar: among
// ten containers' starts none is a repetition.
//
// The zero value is ready. It is not safe for concurrent use.
type Correlator struct {
	known   map[key]Event
	bytes   int             // of the messages in known
	similar map[key]similar // by a key without a message
	kept    int             // how many of similar were left when they were last bounded
}

type key struct{ uid, namespace, pod, kind, reason, fieldPath, message string }

// similar are the messages of a reason, not counting those that were combined.
type similar struct {
	messages []string
	last     time.Time
}

// Add takes an event in and returns it as it is after that: with its Count, its
// First and, if it stands for similar ones, with such a message.
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

// combines reports whether an event is one of too many similar ones, and counts it
// among them if it isn't yet.
func (c *Correlator) combines(group key, e Event) bool {
	s := c.similar[group]
	// An event that was counted before spans the time since it first occurred.
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

// bound forgets what came longest ago, and similar messages that count no more.
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
	if len(c.similar) <= min(2*c.kept+64, maxKnown) { // not at each event
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

// Forget drops what is known of one container of a pod: its events count from
// one again.
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

// Correlate aggregates events, which are in the order of their times, and
// returns them in the order of their last occurrence.
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
		if i, ok := at[k]; ok && e.Count > 1 { // else it was forgotten since then
			out[i] = e
			continue
		}
		at[k] = len(out)
		out = append(out, e)
	}
	slices.SortStableFunc(out, func(a, b Event) int { return a.Time.Compare(b.Time) })
	return out
}
