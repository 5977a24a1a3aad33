// SPDX-License-Identifier: Apache-2.0
// URLs of repositories. What a caller may give: https, http, ssh, git, file, an absolute path, and host:path as ssh
// has it.
#pragma once
#include "base/err.h"
#include "base/sha256.h"
#include <stdbool.h>

struct repo_url {
	char *clean;	       // without credentials: the only form that is stored, printed or passed on
	const char *scheme;    // "https", "http", "ssh", "git" or "file"
	char *host;	       // lower case, without port; "" for file
	char *place;	       // scheme://host[:port], for which the credentials are
	char *user, *password; // of the URL, decoded; NULL
};

int repo_url_parse(const char *text, struct repo_url *out, struct err *e) MUST_USE; // INVALID, and why
void repo_url_done(struct repo_url *u);						    // wipes the password
// A submodule's URL as .gitmodules has it: "./x" and "../x" are relative to that of its superproject. Owned.
char *repo_url_join(const char *parent, const char *url);
// The name of the mirror of a clean URL: REPOS/KEY.git.
void repo_url_key(const char *clean, char out[33]);
