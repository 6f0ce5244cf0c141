package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/test/patience"
	"github.com/podrun/podrun/test/ring"
)

// settleTime is the settle time in the tests on real files.
const settleTime = 100 * time.Millisecond

func reader(t *testing.T, dirs ...string) *Reader {
	t.Helper()
	return readerOf(t, Options{Dirs: dirs, Settle: settleTime})
}

func readerOf(t *testing.T, o Options) *Reader {
	t.Helper()
	r, err := NewReader(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func read(t *testing.T, r *Reader) *Snapshot {
	t.Helper()
	s, err := r.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// settled reads until no change is pending, and collects the news.
func settled(t *testing.T, r *Reader) (*Snapshot, string) {
	t.Helper()
	var reported []string
	for {
		s := read(t, r)
		for _, p := range s.News {
			reported = append(reported, p.String())
		}
		if s.ReadAgain == 0 {
			return s, strings.Join(reported, "\n")
		}
		time.Sleep(s.ReadAgain)
	}
}

// pods lists the pods in effect with their images.
func pods(s *Snapshot) string {
	var out []string
	for _, p := range Merge(s).Pods {
		out = append(out, p.Object.Name+"="+p.Object.Spec.Containers[0].Image)
	}
	return strings.Join(out, " ")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func do(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestReadOddFiles(t *testing.T) {
	requireRoot(t)
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write(t, path("good.yaml"), pod("web", "a"))
	write(t, path(".hidden.yaml"), pod("hidden", "a"))
	write(t, path("good.yaml~"), pod("old", "a"))
	write(t, path("notes.txt"), "notes")
	write(t, path("esc\x1b[31m.yaml"), broken)
	write(t, path("bad\xff.yaml"), pod("bytes", "a"))
	do(t, unix.Mkfifo(path("fifo.yaml"), 0o644), os.Mkdir(path("sub.yaml"), 0o755), os.WriteFile(path("sub.yaml/x.yaml"), nil, 0o644),
		os.Symlink("loop.yaml", path("loop.yaml")), os.Symlink("nowhere", path("dangling.yaml")), os.Symlink("/dev/zero", path("zero.yaml")),
		os.WriteFile(path("huge.yaml"), nil, 0o644), os.Truncate(path("huge.yaml"), 100<<20))
	r := reader(t, dir)
	var s *Snapshot
	var news string
	patience.Within(t, patience.OnFake, "reading", func() { s, news = settled(t, r) })
	if got := pods(s); got != "bytes=a web=a" {
		t.Errorf("pods are %s", got)
	}
	for _, want := range []string{
		"ignored: notes.txt, sub.yaml (podrun reads files whose names end in .yaml, .yml or .json, but not subdirectories)",
		`esc\x1b[31m.yaml":5: not valid YAML`, "fifo.yaml: is not a regular file", "loop.yaml: too many levels of symbolic links",
		"dangling.yaml: is a symbolic link to a file that does not exist", "zero.yaml: is not a regular file", "huge.yaml: larger than the limit of 10 MiB",
	} {
		if strings.Count(news, want) != 1 {
			t.Errorf("%q was not reported once in\n%s", want, news)
		}
	}
	if strings.ContainsAny(news, "\x1b\xff") || strings.Count(news, "\n") != 6 {
		t.Errorf("reported:\n%q", news)
	}
	if _, again := settled(t, r); again != "" {
		t.Errorf("reported again:\n%s", again)
	}
	if s.Complete() {
		t.Error("complete, although files are broken")
	}
}

// podrun does not use a file yet while it is open for writing, even if its current content is
// valid.
func TestReadOpenForWriting(t *testing.T) {
	ring.RequireRoot(t)
	path := filepath.Join(t.TempDir(), "web.yaml")
	f, err := os.Create(path)
	do(t, err)
	defer f.Close()
	_, err = f.WriteString(pod("web", "a"))
	do(t, err)
	r := reader(t, filepath.Dir(path))
	if s := read(t, r); pods(s) != "" || s.Dirs[0].Files[0].State != Incomplete || s.ReadAgain == 0 {
		t.Errorf("open: %q, %s, again after %s", pods(s), s.Dirs[0].Files[0].State, s.ReadAgain)
	}
	_, err = f.WriteString("  - name: second\n    image: b\n")
	do(t, err, f.Close())
	if s := read(t, r); pods(s) != "web=a" || len(Merge(s).Pods[0].Object.Spec.Containers) != 2 {
		t.Errorf("closed: %q", pods(s))
	}
}

// The files of a mounted ConfigMap are links through ..data, which the kubelet replaces
// atomically.
func TestReadDataLinks(t *testing.T) {
	requireRoot(t)
	dir := t.TempDir()
	set := func(version, image string) {
		do(t, os.Mkdir(filepath.Join(dir, version), 0o755), os.WriteFile(filepath.Join(dir, version, "web.yaml"), []byte(pod("web", image)), 0o644),
			os.Symlink(version, filepath.Join(dir, "..tmp")), os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")))
	}
	set("..1", "a")
	do(t, os.Symlink("..data/web.yaml", filepath.Join(dir, "web.yaml")))
	r := reader(t, dir)
	if s, news := settled(t, r); pods(s) != "web=a" || news != "" {
		t.Fatal(pods(s), news)
	}
	set("..2", "b")
	if s, news := settled(t, r); pods(s) != "web=b" || news != "" {
		t.Fatal(pods(s), news)
	}
}

func TestReadUnmounted(t *testing.T) {
	ring.RequireRoot(t)
	dir := t.TempDir()
	mount := func() { do(t, unix.Mount("podrun-test", dir, "tmpfs", 0, "size=1m,mode=755")) }
	unmount := func() { do(t, unix.Unmount(dir, unix.MNT_DETACH)) }
	mount()
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	write(t, filepath.Join(dir, "web.yaml"), pod("web", "a"))
	r := reader(t, dir)
	s, _ := settled(t, r)
	identity := s.Dirs[0].Identity
	unmount()
	s, news := settled(t, r)
	if pods(s) != "web=a" || s.Dirs[0].State != Unreachable || !strings.Contains(news, "the directory was replaced by an empty directory") {
		t.Errorf("unmounted: %s %s %s", pods(s), s.Dirs[0].State, news)
	}
	if _, again := settled(t, r); again != "" {
		t.Errorf("reported again: %s", again)
	}
	if may, _ := s.MayDefine(filepath.Join(dir, "other.yaml")); !may {
		t.Error("a pod whose directory is unmounted may be removed")
	}
	rebooted, err := NewReader(Options{Dirs: []string{dir}, Settle: settleTime, Identities: map[string]Identity{dir: identity}})
	do(t, err)
	if s = read(t, rebooted); s.Dirs[0].State != Unreachable || s.Complete() {
		t.Errorf("after a restart the directory is %s", s.Dirs[0].State)
	}
	lost, err := NewReader(Options{Dirs: []string{dir}, Settle: settleTime, IdentitiesLost: true})
	do(t, err)
	if s = read(t, lost); s.Dirs[0].State != Unreachable || s.Complete() {
		t.Errorf("after a restart without the record of its identity, the directory is %s", s.Dirs[0].State)
	}
	mount()
	write(t, filepath.Join(dir, "web.yaml"), pod("web", "b"))
	s, news = settled(t, r)
	if pods(s) != "web=b" || !strings.Contains(news, "readable again") {
		t.Errorf("mounted again: %s %s", pods(s), news)
	}
	if s, _ = settled(t, lost); pods(s) != "web=b" {
		t.Errorf("mounted again, without the record: %s", pods(s))
	}
	unmount()
}

// requireRoot skips a test of the reported messages if the test does not run as root. podrun
// would then also report that a user other than root owns the files.
func requireRoot(t *testing.T) {
	t.Helper()
	ring.RequireRoot(t)
}

// TestReadSingleFile covers a source that is a single file. podrun must not read other files of
// its directory.
func TestReadSingleFile(t *testing.T) {
	dir := t.TempDir()
	do(t, os.Chmod(dir, 0o755))
	file := filepath.Join(dir, "a.yaml")
	write(t, file, pod("a", "1"))
	write(t, filepath.Join(dir, "b.yaml"), pod("b", "1"))
	r := reader(t, file)
	s, news := settled(t, r)
	if pods(s) != "a=1" || s.Dirs[0].State != Present || s.Dirs[0].Files[0].Path != file {
		t.Fatalf("%s; %+v; %s", pods(s), s.Dirs[0], news)
	}
	write(t, filepath.Join(dir, "new"), pod("a", "2"))
	do(t, os.Rename(filepath.Join(dir, "new"), file))
	if s, _ = settled(t, r); pods(s) != "a=2" {
		t.Fatal("replaced:", pods(s))
	}
	write(t, file, "kind: [")
	if s, news = settled(t, r); pods(s) != "a=2" || !strings.Contains(news, file) {
		t.Fatal("invalid:", pods(s), news)
	}
	do(t, os.Remove(file))
	if s, _ = settled(t, r); pods(s) != "" || s.Dirs[0].State != Present {
		t.Fatal("removed:", pods(s), s.Dirs[0].State)
	}
	if may, why := s.MayDefine(file); may {
		t.Error("the removed file still defines its pod:", why)
	}
	if may, _ := s.MayDefine(filepath.Join(dir, "b.yaml")); !may {
		t.Error("another file of the directory defines no pod")
	}
	write(t, file, pod("a", "3"))
	if s, _ = settled(t, r); pods(s) != "a=3" {
		t.Fatal("created again:", pods(s))
	}
	do(t, os.Chmod(dir, 0o777))
	write(t, file, pod("a", "4"))
	if s, _ = settled(t, r); pods(s) != "a=3" || s.Dirs[0].Why != "its directory is refused, because every user can write to it (fix: chmod o-w)" {
		t.Fatal("its directory is writable:", pods(s), s.Dirs[0].Why)
	}
}

func TestReadVanishedDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "m")
	r := reader(t, dir)
	s, news := settled(t, r)
	if s.Dirs[0].State != Unreachable || !strings.Contains(news, "unreachable: no such file or directory (its pods keep running") {
		t.Fatal(s.Dirs[0].State, news)
	}
	do(t, os.Mkdir(dir, 0o755))
	write(t, filepath.Join(dir, "a.yaml"), pod("a", "1"))
	write(t, filepath.Join(dir, "b.yaml"), pod("b", "1"))
	if s, _ = settled(t, r); pods(s) != "a=1 b=1" {
		t.Fatal(pods(s))
	}
	do(t, os.RemoveAll(dir))
	if s, _ = settled(t, r); pods(s) != "a=1 b=1" {
		t.Fatal("gone:", pods(s))
	}
	do(t, os.WriteFile(dir, nil, 0o644))
	if s, _ = settled(t, r); pods(s) != "a=1 b=1" || s.Dirs[0].Why != "not a directory" {
		t.Fatal("a file:", pods(s), s.Dirs[0].Why)
	}
	do(t, os.Remove(dir), os.Mkdir(dir, 0o755))
	write(t, filepath.Join(dir, "b.yaml"), pod("b", "2"))
	if s, _ = settled(t, r); pods(s) != "b=2" {
		t.Fatal("back:", pods(s))
	}
	do(t, os.Remove(filepath.Join(dir, "b.yaml")))
	if s, _ = settled(t, r); pods(s) != "" || s.Dirs[0].State != Present {
		t.Fatal("removed:", pods(s), s.Dirs[0].State)
	}
}

func TestReadManyFiles(t *testing.T) {
	requireRoot(t)
	dir := t.TempDir()
	for i := range 10000 {
		write(t, filepath.Join(dir, fmt.Sprintf("%05d.yaml", i)), configMap(fmt.Sprintf("m%d", i), "x"))
	}
	r := reader(t, dir)
	begin := time.Now()
	s, news := settled(t, r)
	first := time.Since(begin)
	if n := len(Merge(s).Shared.ConfigMaps); n != 10000 || news != "" {
		t.Fatalf("%d ConfigMaps, reported %.300s", n, news)
	}
	time.Sleep(max(0, racyWindow-time.Since(begin)))
	read(t, r)
	begin = time.Now()
	read(t, r)
	t.Logf("10,000 files: %s, and unchanged %s", first, time.Since(begin))
	write(t, filepath.Join(dir, "x.yaml"), pod("web", "a"))
	if s, news = settled(t, r); s.Dirs[0].State != Unreachable || len(Merge(s).Shared.ConfigMaps) != 10000 {
		t.Errorf("one more: %s %s", s.Dirs[0].State, news)
	}
}

// If a file is written again in the same clock tick, with the same size and modification time,
// podrun reads it again.
func TestReadSameSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.yaml")
	r := reader(t, filepath.Dir(path))
	at := time.Now()
	for i := range 20 {
		image := string(rune('a' + i))
		write(t, path, pod("web", image))
		do(t, os.Chtimes(path, at, at))
		if s, _ := settled(t, r); pods(s) != "web="+image {
			t.Fatalf("pods are %s, want %s", pods(s), image)
		}
	}
}

// If a read of a directory hangs, the directory is unreachable, and does not delay other
// directories. The wait ends when the context ends.
func TestReadStalled(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "web.yaml"), pod("web", "a"))
	r := reader(t, dir, filepath.Join(t.TempDir(), "hangs"))
	r.options.Stall = 2 * time.Second // also the limit for the other directory
	hung := &pass{done: make(chan struct{})}
	r.busy[r.options.Dirs[1]] = hung
	s := read(t, r)
	if pods(s) != "web=a" || s.Dirs[1].Why != errStalled.Error() {
		t.Errorf("%s, %s", pods(s), s.Dirs[1].Why)
	}
	var l listing
	if err := (&pass{cancel: func() {}, done: make(chan struct{})}).wait(t.Context(), r.options.Stall, &l); err != nil || l.err != errStalled {
		t.Errorf("a pass without progress: %v, %v", err, l.err)
	}
	close(hung.done)
	if s = read(t, r); s.Dirs[1].Why != "no such file or directory" {
		t.Errorf("afterwards: %s", s.Dirs[1].Why)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("told to stop"))
	if _, err := r.Read(ctx); err == nil || !strings.Contains(err.Error(), "told to stop") {
		t.Errorf("the error is %v", err)
	}
}

// When podrun checks for writers, this does not harm a process that opens the file at the same
// time.
func TestWriterOf(t *testing.T) {
	ring.RequireRoot(t)
	path := filepath.Join(t.TempDir(), "web.yaml")
	write(t, path, pod("web", "a"))
	cmd := exec.Command("sh", "-c", `i=0; while [ $i -lt 2000 ]; do echo "# $i" >>"$0" || exit 1; i=$((i+1)); done`, path)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	do(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	r := reader(t, filepath.Dir(path))
	for {
		select {
		case err := <-ended:
			if err != nil || out.Len() > 0 {
				t.Errorf("the writer: %v %s", err, out.String())
			}
			if s, _ := settled(t, r); pods(s) != "web=a" {
				t.Error(pods(s))
			}
			return
		default:
			read(t, r)
		}
	}
}
