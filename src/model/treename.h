// SPDX-License-Identifier: Apache-2.0
// Names that never land on the host, whatever file system is there.
#pragma once
#include <stdbool.h>
#include <stddef.h>

// True when one component, read by some file system or some git, is ".git": any case, trailing dots and spaces, NTFS streams
// and short names, characters that HFS+ or a reader ignores, full-width and other compatibility forms.
bool treename_is_git(const char *name, size_t n);
bool treename_path_has_git(const char *path); // any component
// A component that a Windows or macOS checkout would read as another path: backslash, colon, trailing dot or space,
// reserved device names. Such names may land here; they are flagged.
bool treename_is_odd(const char *name, size_t n);
// A code point that shows nothing, or turns the direction of what follows. 0 = shown as it is.
enum treename_hidden { HIDDEN_NONE, HIDDEN_BIDI, HIDDEN_INVISIBLE };
enum treename_hidden treename_hidden(unsigned cp);
// The next code point of valid or invalid UTF-8; bytes that are none give 0xdc00 + byte. Moves *at on by at least one.
unsigned treename_next_cp(const char *p, size_t n, size_t *at);
