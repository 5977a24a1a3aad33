// SPDX-License-Identifier: Apache-2.0
// A project's setup as data: what a setup layer is made from. Two sandboxes with the same key get the same layer.
#pragma once
#include "base/sha256.h"
#include "model/spec.h"

// One of the files whose content decides whether the setup has to run again.
struct setup_file {
	char *path; // below the project
	char sha256[SHA256_HEX]; // "" = it is not there
};

struct setup {
	const char *repo;    // directory or URL: no repository ever gets what another one's setup wrote
	const char *image;   // id of an imported image; of the host's system what tells one state of it from another
	const char *ws_path; // commands write absolute paths into what they make
	enum profile profile;
	char *const *commands, *const *env, *const *hide; // NULL = none
	const struct setup_file *files;
	size_t n_files;
};
void setup_key(const struct setup *s, char out[SHA256_HEX]);

// Names, at the top of a project, that are looked at when its file names none itself.
bool setup_is_lock(const char *name);

// argv of the one command that runs them in order, each by a shell of its own, with a line before each on stderr. Ends
// with the status of the first that fails. Owned.
char **setup_argv(char *const *commands);
