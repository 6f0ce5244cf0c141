package imagepull

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/podrun/podrun/internal/problem"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// answer is a real error of a runtime, from testdata/pull-errors.tsv.
type answer struct {
	runtime, what string
	code          codes.Code
	class         Class
	text          string
}

func readAnswers(t *testing.T) []answer {
	t.Helper()
	data, err := os.ReadFile("testdata/pull-errors.tsv")
	if err != nil {
		t.Fatal(err)
	}
	code := map[string]codes.Code{"Unknown": codes.Unknown, "NotFound": codes.NotFound}
	var out []answer
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 5 {
			t.Fatalf("not five columns: %q", line)
		}
		out = append(out, answer{f[0], f[1], code[f[2]], Class(f[3]), f[4]})
	}
	if len(out) < 114 {
		t.Fatalf("only %d answers", len(out))
	}
	return out
}

func TestClassifyRealAnswers(t *testing.T) {
	for _, a := range readAnswers(t) {
		if got := Classify(status.Error(a.code, a.text)); got != a.class {
			t.Errorf("%s, %s: %s, want %s\n\t%s", a.runtime, a.what, got, a.class, a.text)
		}
	}
}

func TestClassifyByCodeWhereTheTextIsSilent(t *testing.T) {
	for _, test := range []struct {
		err  error
		want Class
	}{
		{nil, ""},
		{status.Error(codes.NotFound, "gone fishing"), NotFound},
		{status.Error(codes.Unauthenticated, "who are you"), Unauthorized},
		{status.Error(codes.PermissionDenied, "not you"), Unauthorized},
		{status.Error(codes.InvalidArgument, "what is that"), InvalidName},
		{status.Error(codes.Unavailable, "try again later"), Unavailable},
		{status.Error(codes.Unknown, "write /var/lib/x: no space left on device"), Transient},
		{status.Error(codes.Unknown, "open /var/lib/x: permission denied"), Transient},
		{errors.New("anything else"), Transient},
	} {
		if got := Classify(test.err); got != test.want {
			t.Errorf("%v: %s, want %s", test.err, got, test.want)
		}
	}
}

// TestClassifyIgnoresQuotedNames checks that the name of an image does not affect the class of its
// failure.
func TestClassifyIgnoresQuotedNames(t *testing.T) {
	err := status.Error(codes.Unknown, `failed to pull and unpack image "r.example/manifest unknown: not found": failed to extract layer: no space left on device`)
	if got := Classify(err); got != Transient {
		t.Errorf("%s, want %s", got, Transient)
	}
}

func TestFatalClasses(t *testing.T) {
	for class, want := range map[Class]bool{
		NotFound: true, Unauthorized: true, InvalidName: true, NoPlatform: true, NotRegistry: true, Signature: true,
		Unavailable: false, Transient: false,
	} {
		if class.Fatal() != want {
			t.Errorf("%s: fatal %v, want %v", class, !want, want)
		}
		if class.Hint() == "" {
			t.Errorf("%s has no hint", class)
		}
	}
}

func TestReasonIsTheKubelets(t *testing.T) {
	for text, want := range map[string]string{
		"RegistryUnavailable: 503":                 "RegistryUnavailable",
		"SignatureValidationFailed: no signature":  "SignatureValidationFailed",
		"dial tcp 127.0.0.1:1: connection refused": "ErrImagePull",
	} {
		if got := reasonOf(status.Error(codes.Unknown, text)); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestMessageOfCRIsOwnWords checks that one of CRI's own reasons becomes the reason of the
// container, and that the text after it is the kubelet's message.
func TestMessageOfCRIsOwnWords(t *testing.T) {
	for text, want := range map[string]string{
		"RegistryUnavailable: connection refused":           "RegistryUnavailable: image pull failed for app:1 because the registry is unavailable: connection refused",
		"SignatureValidationFailed: no signature exists":    "SignatureValidationFailed: image pull failed for app:1 because the signature validation failed: no signature exists",
		"dial tcp 127.0.0.1:1: connect: connection refused": "ErrImagePull: dial tcp 127.0.0.1:1: connect: connection refused",
	} {
		err := status.Error(codes.Unknown, text)
		failed := &PullError{Image: "app:1", Reason: reasonOf(err), Class: Classify(err), Err: err}
		if got := failed.Error(); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

func TestRedact(t *testing.T) {
	for text, want := range map[string]string{
		`Get "https://bob:s3cret@r.example/v2/": EOF`:                             `Get "https://***@r.example/v2/": EOF`,
		`GET https://s3.example/x?X-Amz-Signature=abc123&X-Amz-Expires=60: 403`:   `GET https://s3.example/x?X-Amz-Signature=***&X-Amz-Expires=60: 403`,
		`https://r.example/token?access_token=abc&scope=repository%3Ax%3Apull: 1`: `https://r.example/token?access_token=***&scope=repository%3Ax%3Apull: 1`,
		`sent Authorization: Bearer eyJhbGciOiJSUzI1NiJ9.e30.AAAA, refused`:       `sent Authorization: Bearer ***, refused`,
		`pull r.example/app@sha256:` + strings.Repeat("a", 64):                    `pull r.example/app@sha256:` + strings.Repeat("a", 64),
	} {
		if got := redact(text); got != want {
			t.Errorf("%s\n\tbecame %s\n\twant   %s", text, got, want)
		}
	}
	for _, a := range readAnswers(t) {
		if got := redact(a.text); got != a.text {
			t.Errorf("no secret was removed from %s\n\tthe result is %s", a.text, got)
		}
	}
}

// TestDisconnectedIsNoPullFailure checks the error if the connection to the runtime breaks. The
// error must not name the registry as the cause, and the exit code must be that of an unavailable
// runtime.
func TestDisconnectedIsNoPullFailure(t *testing.T) {
	for text, want := range map[string]Class{
		"error reading from server: EOF": Disconnected,
		`connection error: desc = "transport: Error while dialing: dial unix /run/containerd/containerd.sock: connect: connection refused"`: Disconnected,
		`failed to do request: Head "https://registry.example/v2/": dial tcp 192.0.2.1:443: connect: connection refused`:                    Unavailable,
	} {
		err := status.Error(codes.Unavailable, text)
		class := Classify(err)
		if class != want {
			t.Errorf("%s: %s, want %s", text, class, want)
		}
		var p *problem.Error
		if !errors.As(failure("app", "registry.example/app:1", &PullError{Reason: ReasonPull, Class: class, Err: err}), &p) || (p.Kind == problem.Runtime) != (want == Disconnected) {
			t.Errorf("%s: the error is %+v", text, p)
		}
	}
}
