// SPDX-License-Identifier: Apache-2.0
// Commits out of a sandbox. A bundle that git wrote inside the cell is taken apart outside: verified, unpacked into a
// repository made for it, every object checked, and only then brought into the host repository, whose own configuration
// and hooks are never read by a program that would run them.
#pragma once
#include "base/err.h"
#include <stdint.h>

struct export_spec {
	const char *socket, *ticket; // of the exec that writes the bundle
	const char *work;	     // a directory for the time being; removed
	const char *base;	     // commit that the host has: what it reaches is not in the bundle; NULL = none
	const char *ref;	     // that the bundle must hold for a branch
	const char *dir;	     // the host's work tree; NULL: its objects are not at hand
	const char *branch;	     // to be made there; NULL: the bundle goes to `out`
	uint64_t most; // bytes that a bundle may have; 0 = any number
	int out;
};
// CONFLICT: the branch exists, or what came out of the sandbox is not sound. out_commit: hex.
int review_export(const struct export_spec *x, char out_commit[41], struct err *e) MUST_USE;
