// SPDX-License-Identifier: Apache-2.0
// The mounts this process sees, as the kernel tells them.
#include "attack.h"
#include <stdio.h>
#include <string.h>

#define MOUNTS_MAX 600

// "36 35 98:0 /root /point opts tags… - type source superopts"
static bool parse_line(char *line, struct mount *m)
{
	char *save, *field[6], *rest = strstr(line, " - ");
	int n = 0;

	if (!rest)
		return false;
	*rest = 0;
	rest += 3;
	for (char *f = strtok_r(line, " ", &save); f && n < 6; f = strtok_r(NULL, " ", &save))
		field[n++] = f;
	if (n < 6)
		return false;
	fmt(m->root, sizeof(m->root), "%s", field[3]);
	fmt(m->point, sizeof(m->point), "%s", field[4]);
	fmt(m->opts, sizeof(m->opts), "%s", field[5]);
	fmt(m->tags, sizeof(m->tags), "%s", save ? save : "");
	m->source[0] = m->type[0] = 0;
	return sscanf(rest, "%31s %127s", m->type, m->source) >= 1;
}

size_t load_mounts(const struct mount **out)
{
	static struct mount mounts[MOUNTS_MAX];
	static char line[16384]; // an overlay's options take up to a page, twice escaped
	FILE *f = fopen("/proc/self/mountinfo", "re");
	size_t n = 0;

	while (f && n < MOUNTS_MAX && fgets(line, sizeof(line), f))
		if (parse_line(line, &mounts[n]))
			n++;
	if (f)
		fclose(f);
	*out = mounts;
	return n;
}

const struct mount *mount_at(const char *path)
{
	const struct mount *m, *best = NULL;
	size_t n = load_mounts(&m), len = 0;

	for (size_t i = 0; i < n; i++) {
		size_t l = strlen(m[i].point);
		bool root = l == 1;
		if (!root && (strncmp(path, m[i].point, l) || (path[l] && path[l] != '/')))
			continue;
		if (l >= len) { // later mounts of the same point hide earlier ones
			best = &m[i];
			len = l;
		}
	}
	return best;
}

bool has_opt(const char *opts, const char *opt)
{
	size_t n = strlen(opt);

	for (const char *s = opts; s && *s; s = strchr(s, ','), s = s ? s + 1 : NULL)
		if (!strncmp(s, opt, n) && (s[n] == ',' || !s[n]))
			return true;
	return false;
}
