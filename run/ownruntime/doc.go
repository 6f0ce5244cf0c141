// Package ownruntime manages the embedded runtime of podrun-bundle: it chooses the runtime that a command uses,
// starts and upgrades the embedded one, and repairs what the runtime has lost.
package ownruntime
