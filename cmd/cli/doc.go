// Package cli contains what the commands of podrun share. App is one invocation: its streams, settings, global
// flags, signals and messages. A command opens the node with App.OpenNode, and prints its report with
// App.Report. PickFlags and InputFlags are the flags that select pods and files.
package cli
