// SPDX-License-Identifier: Apache-2.0
// The registries that the package managers of this user are set up for. Asked of the tools themselves, by skep-image in
// the user's own environment: skepd neither has it nor waits for children. Remembered for an hour in
// SKEP_HOME/registries.cache, as long as what the tools read stays as it is.
#pragma once
#include "base/err.h"

struct known {
	char **list; // "host[:port]\tsource"; never NULL
	char **env;  // K=V: what the user's own files say, for tools inside that do not see them; never NULL
};
// image: id or name of an imported one, whose files count instead of the host's; NULL = the host.
int known_registries(const char *image, struct known *out, struct err *e) MUST_USE;
void known_done(struct known *r);
