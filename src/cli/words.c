// SPDX-License-Identifier: Apache-2.0
#include "cli/words.h"

#include "base/mem.h"
#include <string.h>

struct word {
	const char *theirs, *ours;
};

static const struct word verbs_elsewhere[] = {
	{"list", "ps"},		{"ls", "ps"},	      {"status", "ps"},	      {"stats", "ps"},	      {"inspect", "show"},  {"info", "show"},
	{"create", "new"},	{"delete", "rm"},     {"remove", "rm"},	      {"destroy", "rm"},      {"prune", "gc"},     {"enter", "shell"},
	{"connect", "shell"},	{"commit", "snapshot"}, {"checkpoint", "snapshot"}, {"restore", "rollback"}, {"revert", "rollback"}, {"clone", "fork"},
	{"images", "image ls"}, {"pull", "image pull"}, {"load", "image import"}, {"rmi", "image rm"},	      {"allow", "policy set"}, {"port", "preview"},
	{"accept", "apply"},	{"discard", "dismiss"}, {"review", "apply -p"}, {"changes", "diff"},   {"events", "log"},    {"sandbox", "run"},
};

static const struct word options_elsewhere[] = {
	{"-i", "nothing: a command of run has the input and the terminal that skep has"},
	{"-v", "--mount DIR[:PATH][:ro|:rw]"},
	{"--bind", "--mount DIR[:PATH]:rw"},
	{"--ro-bind", "--mount DIR[:PATH]"},
	{"-p", "skep preview ID PORT"},
	{"--publish", "skep preview ID PORT"},
	{"-m", "--memory SIZE"},
	{"--network", "--net PRESET, or --allow HOST"},
	{"--share-net", "--net PRESET, or --allow HOST"},
	{"--allow-net", "--net PRESET, or --allow HOST"},
};

static const char *find(const struct word *w, size_t n, const char *word)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(w[i].theirs, word))
			return w[i].ours;
	return NULL;
}

const char *words_verb(const char *word)
{
	return find(verbs_elsewhere, countof(verbs_elsewhere), word);
}

const char *words_option(const char *word)
{
	return find(options_elsewhere, countof(options_elsewhere), word);
}
