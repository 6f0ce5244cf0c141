package grammar

// Line is the command line as the user typed it.
type Line struct {
	// typed are the arguments after translate has converted them to commands and flags of podrun.
	// dashAdded is set if translate added the -- of exec.
	Typed     []string
	DashAdded bool
}
