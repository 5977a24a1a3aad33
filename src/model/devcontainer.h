// SPDX-License-Identifier: Apache-2.0
// devcontainer.json as a project (model/project.h). It is JSON with comments and trailing commas, and it is hostile:
// nothing in it is run, mounted or opened on the host, and nothing in it asks for trust. Taken over:
//
//   image                                                    containerEnv, remoteEnv, with variables replaced
//   onCreateCommand, updateContentCommand, postCreateCommand (text, list, or map of those) as setup
//   forwardPorts                                             workspaceFolder
//
// What would make a difference and is not done (initializeCommand, mounts, runArgs, features, builds, users …) stands in
// left_out, one line each. Keys that only concern editors are passed over.
#pragma once
#include "model/project.h"

// base: the project on the host, of which only the last name is ever used; ws_path: where the caller wants it inside, NULL
// = not said: then the file's workspaceFolder, else base itself.
int devcontainer_parse(const char *p, size_t n, const char *base, const char *ws_path, struct project *out,
		       struct err *e) MUST_USE;
