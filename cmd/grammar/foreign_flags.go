package grammar

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/shellword"
)

// Hints that several flags share.
const (
	omitCluster  = "podrun does not use a cluster: omit the flag: 'CMD'"
	omitServer   = "podrun has no API server: omit the flag: 'CMD'"
	omitFlag     = "omit the flag: 'CMD'"
	eachSubdir   = "podrun reads a directory but not its subdirectories: use 'CMD', and add -f DIR for each subdirectory"
	useGrace     = "use 'CMD --grace-period=VALUE'"
	stopSignal   = "set lifecycle.stopSignal in the manifest, or run 'podrun exec NAME -- kill -VALUE 1' to send a signal to process 1 of the container"
	useImageName = "use 'podrun image ls REPOSITORY[:TAG]' to select images by name, and 'podrun image prune' to remove those without a tag"
	UseProcesses = "top shows CPU and memory; to list the processes of a container, run 'podrun exec NAME -- ps'"
	execUser     = "the manifest sets the container's user (securityContext.runAsUser); if the image has su, use 'EXEC -- su -s /bin/sh VALUE -c \"ARGV\"' with the name of the user"
	useEndpoint  = "use 'CMD --container-runtime-endpoint VALUE'"
)

// ForeignFlag is a flag of a related tool that podrun does not have.
type ForeignFlag struct {
	Hint  string // CMD is replaced by the command line without the flag, VALUE by its value
	Value bool   // the next argument may be the flag's value
}

// ForeignFlags maps a command and a flag, or a flag alone for all commands, to hints on what
// to use.
var ForeignFlags = map[string]ForeignFlag{
	"context":                  {omitCluster, true},
	"kubeconfig":               {omitCluster, true},
	"cluster":                  {omitCluster, true},
	"user":                     {omitCluster, true},
	"server":                   {omitCluster, true},
	"token":                    {omitCluster, true},
	"as":                       {omitCluster, true},
	"s":                        {omitCluster, true},
	"as-group":                 {omitCluster, true},
	"as-uid":                   {omitCluster, true},
	"username":                 {omitCluster, true},
	"password":                 {omitCluster, true},
	"certificate-authority":    {omitCluster, true},
	"client-certificate":       {omitCluster, true},
	"client-key":               {omitCluster, true},
	"tls-server-name":          {omitCluster, true},
	"insecure-skip-tls-verify": {omitCluster, false},
	"cache-dir":                {omitServer, true},
	"disable-compression":      {omitServer, false},
	"match-server-version":     {omitServer, false},
	"warnings-as-errors":       {omitServer, false},
	"log-flush-frequency":      {omitServer, true},
	"vmodule":                  {omitServer, true},
	"subresource":              {omitServer, true},
	"openapi-patch":            {omitServer, false},
	"v":                        {"use 'CMD --verbose'", true},
	"host":                     {oneHost, true},
	"H":                        {oneHost, true},
	"request-timeout":          {"use 'CMD --runtime-request-timeout=VALUE', the limit of each call to the runtime", true},
	"runtime-endpoint":         {useEndpoint, true},
	"r":                        {useEndpoint, true},
	"image-endpoint":           {"use 'CMD --image-service-endpoint VALUE'", true},
	"debug":                    {"use 'CMD --verbose'", false},
	"D":                        {"use 'CMD --verbose'", false},
	"log-level":                {"use 'CMD --verbose'", true},
	"loglevel":                 {"use 'CMD --verbose'", true},
	"no-color":                 {"use 'CMD --color=never'", false},
	"R":                        {eachSubdir, false},
	"recursive":                {eachSubdir, false},
	"show-kind":                {"use 'CMD -o name', which prints pod/NAME", false},
	"get format":               {"use 'podrun get NAME -o jsonpath={.status.phase}' or -o go-template=TEMPLATE, with the fields of 'podrun get NAME -o json'", true},
	"get filter":               {"use 'CMD -l app=web' for labels, or 'CMD --field-selector=status.phase=Running'", true},
	"get f":                    {"get does not read manifests: use 'podrun get NAME', or 'podrun diff -f VALUE' to compare the manifest with the pods", true},
	"get filename":             {"get does not read manifests: use 'podrun get NAME', or 'podrun diff -f VALUE' to compare the manifest with the pods", true},
	"get write-to":             {"use 'CMD > VALUE'", true},
	"get service":              {"podrun get prints pods and workloads: omit the flag: 'CMD'; 'podrun get svc -o yaml' prints the Services", false},
	"get last":                 {"use 'CMD --sort-by=.metadata.creationTimestamp | tail -n VALUE'", true},
	"get latest":               {"use 'CMD --sort-by=.metadata.creationTimestamp | tail -n 1'", false},
	"get export":               {"use 'CMD -o yaml', which prints the definition as it was applied", false},
	"delete field-selector":    {"use 'podrun get --field-selector=VALUE -o name | xargs -r podrun delete'", true},
	"delete latest":            {"use 'podrun get --sort-by=.metadata.creationTimestamp' to find the latest pod, and 'podrun delete NAME'", false},
	"delete volumes":           {"use 'CMD --delete-volumes', which also deletes the pod's claims in --pvc-dir", false},
	"delete interactive":       {"podrun does not ask for confirmation: 'CMD --dry-run=client' prints what would be deleted", false},
	"delete i":                 {"podrun does not ask for confirmation: 'CMD --dry-run=client' prints what would be deleted", false},
	"delete raw":               {omitServer, true},
	"stop now":                 {"omit the flag: 'CMD'", false},
	"get raw":                  {"podrun has no API server; 'podrun serve' has an HTTP API: 'curl --unix-socket /var/lib/podrun/serve/readonly.sock http://podrunVALUE'", true},
	"get since":                {"use 'podrun logs NAME --since=VALUE' for the logs of a pod; 'podrun events' prints the age of each event", true},
	"describe output":          {"use 'podrun get NAME -o VALUE'", true},
	"describe o":               {"use 'podrun get NAME -o VALUE'", true},
	"describe f":               {"use 'podrun describe NAME': describe does not read manifests", true},
	"exec env":                 {"use 'EXEC -- env VALUE ARGV'", true},
	"exec e":                   {"use 'EXEC -- env VALUE ARGV'", true},
	"exec env-file":            {"use 'EXEC -- env $(cat VALUE) ARGV'", true},
	"exec user":                {execUser, true},
	"exec u":                   {execUser, true},
	"exec w":                   {"use 'EXEC -- sh -c \"cd VALUE && ARGV\"'", true},
	"exec workdir":             {"use 'EXEC -- sh -c \"cd VALUE && ARGV\"'", true},
	"exec d":                   {"use 'EXEC -- sh -c \"ARGV >/dev/null 2>&1 &\"'", false},
	"exec detach":              {"use 'EXEC -- sh -c \"ARGV >/dev/null 2>&1 &\"'", false},
	"exec privileged":          {"the manifest sets the privileges (securityContext.privileged: true): omit the flag: 'CMD'", false},
	"exec detach-keys":         {omitFlag, true},
	"logs r":                   {"logs prints the oldest line first: use 'CMD | tac'", false},
	"logs reverse":             {"logs prints the oldest line first: use 'CMD | tac'", false},
	"logs e":                   {"use 'CMD --tail=1000 | less +G'", false},
	"logs pager-end":           {"use 'CMD --tail=1000 | less +G'", false},
	"logs lines":               {"use 'CMD --tail=VALUE'", true},
	"logs k":                   {"the kernel's messages are not in the log of a pod: use 'journalctl -k' or 'dmesg'", false},
	"logs dmesg":               {"the kernel's messages are not in the log of a pod: use 'journalctl -k' or 'dmesg'", false},
	"logs b":                   {"podrun logs prints the lines of all boots: use 'CMD --since=1h', or 'CMD --since-time=2006-01-02T15:04:05Z'", false},
	"logs boot":                {"podrun logs prints the lines of all boots: use 'CMD --since=1h', or 'CMD --since-time=2006-01-02T15:04:05Z'", false},
	"logs o":                   {"use 'CMD --timestamps' for the time of each line, or omit the flag: 'CMD'", true},
	"logs output":              {"use 'CMD --timestamps' for the time of each line, or omit the flag: 'CMD'", true},
	"logs grep":                {"use 'CMD | grep VALUE'", true},
	"logs g":                   {"use 'CMD | grep VALUE'", true},
	"logs names":               {"use 'CMD --prefix'", false},
	"doctor format":            {"use 'podrun doctor -o json'", true},
	"version f":                {"use 'podrun version -o json'", true},
	"events until":             {"events are sorted by time: 'podrun events -o json' has the time of each", true},
	"image pull a":             {"omit the flag, and pull each tag: 'CMD'", false},
	"image pull all-tags":      {"omit the flag, and pull each tag: 'CMD'", false},
	"image pull platform":      {"podrun pulls the images of this host's platform: omit the flag: 'CMD'", true},
	"image ls tree":            {omitFlag, false},
	"image prune filter":       {"podrun image prune does not select by time or label: 'podrun image prune --all --dry-run' prints what would be removed", true},
	"logs until":               {"use --since or --since-time for the beginning, and --tail for the number of lines", true},
	"logs u":                   {"use 'podrun logs VALUE', or 'journalctl -u podrun' for the service", true},
	"logs unit":                {"use 'podrun logs VALUE', or 'journalctl -u podrun' for the service", true},
	"run logs":                 {"run prints the logs: omit the flag: 'CMD'", false},
	"run since":                {"run prints the logs from the beginning: 'CMD'", true},
	"run junit":                {"use 'CMD -o junit=VALUE'", true},
	"run set":                  {"change the manifest, or render a chart with the value: 'helm template CHART --set VALUE | podrun run -'", true},
	"apply network":            {"the CNI configuration defines the network: omit the flag, or set hostNetwork: true in the manifest", true},
	"apply replicas":           {noReplicas, true},
	"apply image":              {"change the manifest: 'kubectl set image --local -f FILE *=VALUE -o yaml | podrun apply -'", true},
	"apply build":              {NoBuild, false},
	"apply down":               {"use 'podrun delete -f FILE'", false},
	"delete time":              {useGrace, true},
	"delete t":                 {useGrace, true},
	"attach detach-keys":       {"attach does not support detach keys: omit the flag: 'CMD'; without -t, Ctrl-C detaches", true},
	"top e":                    {UseProcesses, true},
	"top f":                    {UseProcesses, true},
	"stop a":                   {"use 'podrun stop --all'", false},
	"stop signal":              {stopSignal, true},
	"stop s":                   {stopSignal, true},
	"restart t":                {"set terminationGracePeriodSeconds in the manifest, or run 'podrun stop NAME --grace-period=VALUE && podrun restart NAME'", true},
	"restart time":             {"set terminationGracePeriodSeconds in the manifest, or run 'podrun stop NAME --grace-period=VALUE && podrun restart NAME'", true},
	"image ls filter":          {useImageName, true},
	"image ls f":               {useImageName, true},
	"image rm prune":           {"use 'podrun image prune --all'", false},
	"image rm a":               {"use 'podrun image prune --all' for all unused images", false},
	"image rm all":             {"use 'podrun image prune --all' for all unused images", false},
	"events field-selector":    {"use 'podrun events NAME' for the events of one pod, or 'podrun events --types=Warning' for warnings", true},
	"events filter":            {"use 'podrun events NAME' for the events of one pod, or 'podrun events --types=Warning' for warnings", true},
	"events watch-only":        {"use 'CMD --watch'", false},
	"events since":             {"events are sorted by time: 'podrun events -o json' has the time of each", true},
	"explain api-version":      {"podrun reads one version of each kind: omit the flag: 'CMD'", true},
	"explain output":           {omitFlag, true},
	"explain o":                {omitFlag, true},
	"plan out":                 {"use 'podrun plan FILE -o yaml > VALUE'", true},
	"doctor fix":               {"doctor changes nothing; it prints the command that fixes each finding: 'podrun doctor'", false},
	"serve f":                  {"use 'podrun serve VALUE'", true},
	"serve filename":           {"use 'podrun serve VALUE'", true},
	"service install dry-run":  {"use 'podrun service install --print'", false},
}

// FlagError returns the usage error for a flag. Its hint states what to use instead, the flag
// that the user probably meant, or the form of the value.
func (a *Line) FlagError(c *cobra.Command, err error) error {
	if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return a.valueError(c, missing.GetFlag(), fmt.Errorf("%s requires a value", shownFlag(missing.GetSpecifiedName(), missing.GetSpecifiedShortnames())), "")
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return a.valueError(c, invalid.GetFlag(), invalidValue(invalid.GetFlag(), invalid.GetValue(), invalid.Unwrap()), invalid.GetValue())
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return Usage(c, err)
	}
	return a.UnknownFlag(c, unknown.GetSpecifiedName(), err)
}

func (a *Line) UnknownFlag(c *cobra.Command, name string, err error) error {
	dashed := shownFlag(name, "")
	if hint := cmp.Or(a.formatHint(c, name), a.eventsHint(c, name)); hint != "" {
		return problem.UsageError(fmt.Errorf("%s has no flag %s", c.CommandPath(), dashed), hint)
	}
	if hint, ok := foreignRunFlags[name]; ok && c.Name() == "run" {
		return problem.UsageError(fmt.Errorf("%s has no flag %s", c.CommandPath(), dashed), hint)
	}
	for _, key := range []string{strings.TrimPrefix(c.CommandPath(), "podrun ") + " " + name, name} {
		if foreign, ok := ForeignFlags[key]; ok {
			return &problem.Error{Kind: problem.Usage, Err: fmt.Errorf("%s has no flag %s", c.CommandPath(), dashed), Hint: a.FlagHint(c, foreign, name)}
		}
	}
	var names, own []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		names = append(names, f.Name)
		if !f.Hidden && c.Root().PersistentFlags().Lookup(f.Name) == nil && f.Name != "help" {
			own = append(own, "--"+f.Name)
		}
	})
	e := &problem.Error{Kind: problem.Usage, Err: err, Hint: "see '" + c.CommandPath() + " --help'"}
	if like := ClosestName(name, names); like != "" {
		e.Err = fmt.Errorf("%w (did you mean --%s?)", err, like)
		if hint := a.withFlag(name, like); hint != "" {
			e.Hint = hint
		}
	} else if len(own) > 0 && len(own) <= 40 {
		e.Hint = c.CommandPath() + " accepts " + strings.Join(own, ", ") + "; run 'podrun options' for the flags that all commands accept"
	}
	return e
}

// withFlag returns the hint with another flag in place of one that the command does not have, or "" if the
// command line does not contain the flag in its long form.
func (a *Line) withFlag(name, other string) string {
	for i, word := range a.Typed {
		if value, ok := strings.CutPrefix(word, "--"+name); ok && (value == "" || value[0] == '=') {
			return "use " + a.WithWords(i, i+1, "--"+other+value)
		}
	}
	return ""
}

// eventsHint returns the hint for --field-selector and --filter of events if they select by the name of the pod or
// by the type of the event, else "".
func (a *Line) eventsHint(c *cobra.Command, name string) string {
	if c.Name() != "events" || name != "field-selector" && name != "filter" {
		return ""
	}
	rest, selector := WithoutFlag(a.Typed, name, true)
	key, value, _ := strings.Cut(selector, "=")
	switch {
	case strings.ContainsAny(value, ",=!") || value == "":
		return ""
	case key == "involvedObject.name" || key == "container" || key == "pod":
		return "use 'podrun " + shellword.Join(append(rest, value)) + "'"
	case key == "type":
		return "use 'podrun " + shellword.Join(append(rest, "--types="+value)) + "'"
	}
	return ""
}

// formatHint returns the hint for docker's --format json (also {{json .}}) and --format yaml on a command with -o, or "".
func (a *Line) formatHint(c *cobra.Command, name string) string {
	rest, value := WithoutFlag(a.Typed, name, true)
	if value == "{{json .}}" || value == "{{ json . }}" {
		value = "json"
	}
	if name != "format" || c.Flags().Lookup("output") == nil {
		return ""
	}
	if value != "json" && value != "yaml" {
		return ""
	}
	dash := slices.Index(rest, "--")
	if dash < 0 {
		dash = len(rest)
	}
	return "use 'podrun " + shellword.Join(slices.Insert(rest, dash, "-o", value)) + "'"
}

// wordsInHint are the words that flagHint replaces.
var wordsInHint = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\bCMD\b|\bEXEC\b|\bARGV\b|VALUE\b`) })

// FlagHint returns a foreign flag's hint for the command line.
func (a *Line) FlagHint(c *cobra.Command, f ForeignFlag, name string) string {
	rest, value := WithoutFlag(a.Typed, name, f.Value)
	if f.Hint == omitCluster || f.Hint == omitServer { // a command line often has several of them
		for other, of := range ForeignFlags {
			if of.Hint == omitCluster || of.Hint == omitServer {
				rest, _ = WithoutFlag(rest, other, of.Value)
			}
		}
	}
	at := slices.Index(rest, c.Name())
	command, dash := "", len(rest)
	if c.Name() == "exec" {
		rest = withDash(c.Root(), rest, at)
		if dash = slices.Index(rest, "--"); dash >= 0 {
			command = shellword.Join(rest[dash+1:])
		} else {
			dash = len(rest)
		}
	}
	return wordsInHint().ReplaceAllStringFunc(FillHint(f.Hint, rest[at+1:]), func(word string) string {
		switch {
		case word == "CMD":
			return shellword.Join(append([]string{"podrun"}, rest...))
		case word == "EXEC":
			return shellword.Join(append([]string{"podrun"}, rest[:dash]...))
		case word == "ARGV":
			return cmp.Or(command, "COMMAND")
		case value != "":
			return shellword.Quote(value)
		}
		return word
	})
}

// shownFlag returns a flag as it was typed.
func shownFlag(name, shorthands string) string {
	if shorthands != "" || len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// invalidValue describes an invalid value of a flag without the names of Go's functions.
func invalidValue(f *pflag.Flag, value string, err error) error {
	switch f.Value.Type() {
	case "duration":
		return fmt.Errorf("--%s=%s is not a duration", f.Name, value)
	case "int", "int32", "int64", "uint", "uint64":
		return fmt.Errorf("--%s=%s is not a whole number", f.Name, value)
	case "bool":
		return fmt.Errorf("--%s=%s is neither true nor false", f.Name, value)
	}
	if _, ok := errors.AsType[*unsupportedValueError](err); ok && f.Name == "wait" {
		err = errors.New("delete returns when the pod is completely removed")
	}
	return fmt.Errorf("--%s=%s: %w", f.Name, value, err)
}

// valueError returns the usage error for a flag's value, with a hint on its form.
func (a *Line) valueError(c *cobra.Command, f *pflag.Flag, err error, given string) error {
	name, text := pflag.UnquoteUsage(f)
	dashed := "--" + f.Name
	if name == f.Value.Type() {
		name = "value"
	}
	hint := fmt.Sprintf("write %s=%s: %s", dashed, strings.ToUpper(name), text)
	switch f.Value.Type() {
	case "ignored":
		hint = a.FlagHint(c, ForeignFlag{omitFlag, f.NoOptDefVal == ""}, f.Name)
	case "duration":
		hint = "write a number and a unit, such as " + dashed + "=" + LikelyDuration(given)
	case "int", "int32", "int64", "uint", "uint64":
		hint = "write a number, such as " + dashed + "=20"
	case "bool":
		hint = "write " + dashed + " or " + dashed + "=false"
	}
	if f.Name == "device" && strings.HasPrefix(given, "/") { // as in docker
		hint = "--device is for CDI devices; use --privileged with -v " + shellword.Quote(given) + ":" + shellword.Quote(given) + " for a device file"
	}
	if f.Name == "namespace" && c.Flags().Lookup("all-namespaces") != nil {
		hint += "; -A selects all namespaces"
	}
	return problem.UsageError(err, hint)
}

// spokenDuration is a duration as journalctl and date accept it.
var spokenDuration = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^-?([0-9]+)\s*([smhd]?)[a-z]*(\s+ago)?$`) })

// LikelyDuration returns the duration that the user probably meant.
func LikelyDuration(given string) string {
	m := spokenDuration().FindStringSubmatch(strings.ToLower(strings.TrimSpace(given)))
	switch {
	case m == nil:
		return "30s or 5m"
	case m[2] == "d":
		days, _ := strconv.Atoi(m[1]) // 0 if the number has too many digits
		return strconv.Itoa(days*24) + "h"
	case m[2] == "":
		return m[1] + "s"
	}
	return m[1] + m[2]
}
