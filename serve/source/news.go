package source

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podrun/podrun/internal/problem"
)

// maxNews limits how many problems one pass reports.
const maxNews = 1000

// news returns the problems that a pass reports. It reports a problem once for each content of
// its file. It reports a directory when the directory becomes unreachable, and when it is
// available again.
func news(before, after *Snapshot) problem.List {
	var out problem.List
	for i := range after.Dirs {
		now := &after.Dirs[i]
		was := &Dir{State: Present}
		if before != nil && i < len(before.Dirs) {
			was = &before.Dirs[i]
		}
		switch {
		case now.pending:
		case now.State != Present && (was.State != now.State || was.Why != now.Why):
			out = append(out, now.unreachable())
		case now.State == Present && was.State == Unreachable && !was.pending:
			out = append(out, problem.Problem{File: printable(now.Path), Reason: "SourceReachable",
				Message: "the " + now.kind() + " is readable again", Warning: true})
		case now.State == Present && was.State == Unverified:
			out = append(out, problem.Problem{File: printable(now.Path), Reason: "SourceVerified",
				Message: "the content of the " + now.kind() + " is verified again", Warning: true})
		}
		if now.State != Present {
			continue
		}
		out = append(out, fileNews(was.Files, now.Files)...)
		fresh := slices.DeleteFunc(slices.Clone(now.Ignored), func(name string) bool { return slices.Contains(was.Ignored, name) })
		if len(fresh) > 0 {
			out = append(out, now.ignored(fresh))
		}
		if len(now.Exposed) > 0 && !slices.Equal(was.Exposed, now.Exposed) {
			out = append(out, now.exposed())
		}
		if len(now.Unsigned) > 0 && !slices.Equal(was.Unsigned, now.Unsigned) {
			out = append(out, now.unsigned())
		}
	}
	if rest := len(out) - maxNews; rest > 0 {
		out = append(out[:maxNews:maxNews], problem.Problem{Reason: "TooManyProblems",
			Message: fmt.Sprintf("and %d more problems", rest), Warning: true})
	}
	return out
}

// fileNews returns the problems of files whose current content podrun has not reported on yet.
// Both lists are sorted by name.
func fileNews(before, after []File) problem.List {
	var out problem.List
	for i := range after {
		f := &after[i]
		for len(before) > 0 && before[0].name < f.name {
			before = before[1:]
		}
		if len(before) > 0 && before[0].name == f.name && before[0].Hash == f.Hash && before[0].settled == f.settled {
			continue
		}
		out = append(out, f.report()...)
	}
	return out
}

// report returns the problems of a file in the form in which they are reported.
func (f *File) report() problem.List {
	out := slices.Clone(f.Problems)
	if f.settled != Broken || f.Objects == nil {
		return out
	}
	return append(out, problem.Problem{File: printable(f.Path), Reason: "SourceKept", Warning: true,
		Message: "podrun continues to use the previous content of this file"})
}

// Name returns the directory's path in printable form.
func (d *Dir) Name() string { return printable(d.Path) }

// unreachable returns why a directory is not Present.
func (d *Dir) unreachable() problem.Problem {
	if d.State == Unverified {
		return problem.Problem{File: printable(d.Path), Reason: "SourceUnverified",
			Message: "podrun does not use the content of the " + d.kind() + ": " + d.Why,
			Hint:    "its pods keep running with the last verified content", Warning: true}
	}
	return problem.Problem{File: printable(d.Path), Reason: "SourceUnreachable", Message: "the " + d.kind() + " is unreachable: " + d.Why,
		Hint: "its pods keep running; podrun removes none of them until it can read the manifests again", Warning: true}
}

func (d *Dir) exposed() problem.Problem {
	return problem.Problem{File: printable(d.Path), Reason: "SourceExposed", Warning: true,
		Message: strings.Join(d.Exposed, "; ") + ": these users can start privileged pods and thus become root",
		Hint:    "run chown root and chmod go-w on these files; to refuse such files, set strictSources: true"}
}

func (d *Dir) unsigned() problem.Problem {
	return problem.Problem{File: printable(d.Path), Reason: "SourceUnverified",
		Message: "ignored, because the signed list does not contain them: " + strings.Join(d.Unsigned, ", "),
		Hint:    "list them in the signed file, or remove them", Warning: true}
}

func (d *Dir) ignored(names []string) problem.Problem {
	return problem.Problem{File: printable(d.Path), Reason: "SourceIgnored", Message: "ignored: " + strings.Join(names, ", "),
		Hint: "podrun reads files whose names end in .yaml, .yml or .json, but not subdirectories", Warning: true}
}
