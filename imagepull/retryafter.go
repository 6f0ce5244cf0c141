package imagepull

import (
	"fmt"
	"strings"
	"time"

	"github.com/podrun/podrun/internal/wait"
)

// overloaded matches the status codes with which a registry may request a delay (RFC 9110,
// section 10.2.3; RFC 6585, section 4).
var overloaded = words(`toomanyrequests`, `\b429\b`, `\b503\b`)

// askedFor matches a delay that a registry requests in the text of a pull's error. Runtimes do not
// include the header in their error, but containerd's "Server message" and CRI-O's text contain the
// registry's message, such as ghcr.io's "retry-after: 1.2ms, allowed: 44000/minute".
var askedFor = expression(`(?i)\bretry-after"?[:=]? *"?([A-Za-z]{3}, \d{2} [A-Za-z]{3} \d{4} \d{2}:\d{2}:\d{2} GMT|[0-9][0-9.a-zµμ]*)`)

// retryAfter returns the delay that an overloaded registry requests in the text of a pull's error,
// up to the longest back-off. If the registry requests no delay, it returns 0.
func retryAfter(text string, now time.Time) time.Duration {
	// The name of an image must not count as a delay. It is in quotes.
	text = quoted().ReplaceAllString(text, `""`)
	if !overloaded().MatchString(text) {
		return 0
	}
	found := askedFor().FindStringSubmatch(text)
	if found == nil {
		return 0
	}
	return wait.RetryAfter(strings.TrimRight(found[1], "."), now, backOffMax)
}

// backOffMessage returns the kubelet's back-off message, with the delay that the registry
// requested.
func backOffMessage(image string, asked time.Duration) string {
	text := fmt.Sprintf("Back-off pulling image %q", image)
	if asked > 0 {
		text += fmt.Sprintf("; the registry asks to retry after %s", asked)
	}
	return text
}
