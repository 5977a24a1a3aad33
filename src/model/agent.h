// SPDX-License-Identifier: Apache-2.0
// Coding agents that `skep run NAME` knows: what each needs to reach, which secret logs it in, and the directory that keeps its
// login and its settings. Data only; cli/agent.c gives it to a sandbox.
#pragma once
#include <stddef.h>

#define AGENT_HOSTS 5
#define AGENT_ENV 3

struct agent {
	const char *name;		 // of its program
	const char *preset;		 // of the network, where its hosts are not known; NULL = hosts
	const char *hosts[AGENT_HOSTS];	 // NULL-terminated
	const char *secret, *secret_host, *secret_as; // its key, as in skep secret set
	const char *dir;		 // below the home
	const char *dir_variable;	 // tells it where the directory is; NULL = it looks in the home
	const char *env[AGENT_ENV];	 // K=V, NULL-terminated
};

const struct agent *agent_find(const char *name); // NULL = none
