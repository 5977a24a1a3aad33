// SPDX-License-Identifier: Apache-2.0
// Talking to a remote: with the caller's configuration and credentials, over the protocol of the URL and no other but
// the safe ones. A password in a URL reaches git by an environment variable only, for the place it was given for.
#include "workspace/repo_fetch_int.h"

#include "base/fault.h"
#include "base/mem.h"
#include "base/str.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// Mistakes of old tools that many histories carry; they harm nobody.
static const char *const tolerated[] = {"zeroPaddedFilemode", "missingSpaceBeforeDate", "badTimezone", "missingEmail",
					"badDateOverflow",    "missingNameBeforeEmail", "badEmail"};

static void config(struct git_run *g, const char *key, const char *value)
{
	auto_free char *kv = xasprintf("%s=%s", key, value);
	git_args(g, "-c", kv, NULL);
}

static void credentials(struct git_run *g, const struct repo_url *u)
{
	if (!u->user || !str_has_prefix(u->scheme, "http"))
		return;
	auto_free char *user = xasprintf("SKEP_URL_USER=%s", u->user),
		       *key = xasprintf("GIT_CONFIG_KEY_1=credential.%s.helper", u->place);
	auto_free char *password = xasprintf("SKEP_URL_PASSWORD=%s", u->password ? u->password : "");
	git_var(g, user);
	git_var(g, password);
	git_var(g, "GIT_CONFIG_COUNT=2");
	git_var(g, "GIT_CONFIG_KEY_0=credential.helper"); // nobody else's helper shall keep them
	git_var(g, "GIT_CONFIG_VALUE_0=");
	git_var(g, key);
	git_var(g,
		"GIT_CONFIG_VALUE_1=!f() { test \"$1\" = get && printf 'username=%s\\npassword=%s\\n' \"$SKEP_URL_USER\" \"$SKEP_URL_PASSWORD\"; }; f");
	explicit_bzero(password, strlen(password));
}

void remote_init(struct git_run *g, const struct repo_url *u, const char *dir, int lock)
{
	git_init(g, GIT_CALLER, dir);
	g->hold = lock;
	auto_free char *own = xasprintf("protocol.%s.allow", u->scheme);
	config(g, "protocol.allow", "never");
	// the caller's own configuration may turn one of these into the other (insteadOf)
	config(g, "protocol.https.allow", "always");
	config(g, "protocol.ssh.allow", "always");
	for (size_t i = 0; i < 3; i++) {
		static const char *const weak[] = {"http", "git", "file"};
		auto_free char *key = xasprintf("protocol.%s.allow", weak[i]);
		config(g, key, strcmp(weak[i], u->scheme) ? "never" : "always");
	}
	config(g, own, "always");
	config(g, "protocol.version", "2");
	config(g, "fetch.fsckObjects", "true");
	config(g, "fetch.recurseSubmodules", "false");
	config(g, "http.lowSpeedLimit", "1");
	config(g, "http.lowSpeedTime", "120");
	for (size_t i = 0; i < countof(tolerated); i++) {
		auto_free char *key = xasprintf("fetch.fsck.%s", tolerated[i]);
		config(g, key, "ignore");
	}
	credentials(g, u);
}

static const struct {
	const char *text;
	enum err_kind kind;
	const char *means;
} complaints[] = {
	{"No space left on device", ERR_LIMIT, "the disk is full"},
	{"Could not resolve host", ERR_UNAVAILABLE, "its name does not resolve"},
	{"Name or service not known", ERR_UNAVAILABLE, "its name does not resolve"},
	{"Temporary failure in name resolution", ERR_UNAVAILABLE, "its name does not resolve"},
	{"unable to look up", ERR_UNAVAILABLE, "its name does not resolve"},
	{"Connection refused", ERR_UNAVAILABLE, "it refuses connections"},
	{"Failed to connect", ERR_UNAVAILABLE, "it can not be reached"},
	{"unable to connect", ERR_UNAVAILABLE, "it can not be reached"},
	{"Connection timed out", ERR_UNAVAILABLE, "it does not answer"},
	{"Operation timed out", ERR_UNAVAILABLE, "it does not answer"},
	{"No route to host", ERR_UNAVAILABLE, "it can not be reached"},
	{"Network is unreachable", ERR_UNAVAILABLE, "it can not be reached"},
	{"Operation too slow", ERR_UNAVAILABLE, "it stopped answering"},
	{"SSL certificate problem", ERR_DENIED, "its certificate is not trusted"},
	{"Host key verification failed", ERR_DENIED, "its host key is not known; connect to it once with ssh"},
	{"Authentication failed", ERR_DENIED, "it refuses the credentials"},
	{"could not read Username", ERR_DENIED, "it wants credentials, and your git has none for it"},
	{"could not read Password", ERR_DENIED, "it wants credentials, and your git has none for it"},
	{"terminal prompts disabled", ERR_DENIED, "it wants credentials, and your git has none for it"},
	{"error: 401", ERR_DENIED, "it wants credentials, and your git has none for it"},
	{"error: 403", ERR_DENIED, "you have no permission"},
	{"Permission denied", ERR_DENIED, "you have no permission"},
	{"access denied", ERR_DENIED, "you have no permission, or the repository is not exported"},
	{"dubious ownership", ERR_DENIED, "another user owns it; git's safe.directory allows it"},
	{"not our ref", ERR_NOT_FOUND, "it has no such commit"},
	{"unadvertised object", ERR_NOT_FOUND, "it has no such commit, or does not give it away by its id"},
	{"couldn't find remote ref", ERR_NOT_FOUND, "it has no such ref"},
	{"transport '", ERR_DENIED, "its protocol is not allowed"},
	{"does not appear to be a git repository", ERR_INVALID, "it is not a git repository"},
	{"not a git repository", ERR_INVALID, "it is not a git repository"},
	{"not valid: is this a git repository?", ERR_INVALID, "it is not a git repository"},
	{"Repository not found", ERR_INVALID, "there is no such repository, or you have no permission"},
	{"not found", ERR_INVALID, "there is no such repository, or you have no permission"},
	{"does not exist", ERR_INVALID, "there is no such repository"},
	{"fsck error", ERR_INVALID, "its objects are broken"},
	{"hung up unexpectedly", ERR_UNAVAILABLE, "it closed the connection"},
	{"Could not read from remote", ERR_UNAVAILABLE, "it can not be read"},
};

int remote_failed(struct git_run *g, const struct repo_url *u, struct err *e)
{
	const char *all = buf_cstr(&g->err);
	for (size_t i = 0; i < countof(complaints); i++)
		if (strcasestr(all, complaints[i].text)) {
			enum err_kind kind = complaints[i].kind;
			const char *means = complaints[i].means, *said = git_said(g);
			return err_set(e, kind, "%.150s can not be fetched: %s (git: %.180s)", u->clean, means, said);
		}
	return err_set(e, ERR_UNAVAILABLE, "%.150s can not be fetched: %.250s", u->clean, git_said(g));
}

// "ref: NAME\tHEAD" | "ID\tNAME" | "ID\tNAME^{}"
static void take_line(char *line, struct gitrefs *r, char **head)
{
	char *tab = strchr(line, '\t');
	if (!tab)
		return;
	*tab++ = 0;
	size_t n = strlen(tab);
	if (str_has_prefix(line, "ref: ") && !strcmp(tab, "HEAD") && gitref_is_name(line + 5)) {
		free(*head);
		*head = xstrdup(line + 5);
		return;
	}
	if (!r->hex)
		r->hex = strlen(line) == 64 ? 64 : 40;
	if (!gitref_is_id(line, r->hex))
		return;
	if (n > 3 && !strcmp(tab + n - 3, "^{}")) {
		if (r->n && !strncmp(r->list[r->n - 1].name, tab, n - 3))
			r->list[r->n - 1].peeled = xstrdup(line);
	} else if (!strcmp(tab, "HEAD")) {
		gitrefs_add(r, "HEAD", line, NULL, NULL);
	} else if (gitref_is_name(tab)) {
		gitrefs_add(r, tab, line, NULL, NULL);
	}
}

int remote_refs(const struct repo_url *u, const char *also, int lock, struct gitrefs *out, char **out_head,
		struct err *e)
{
	auto_git struct git_run g;
	remote_init(&g, u, NULL, lock);
	git_args(&g, "ls-remote", "--quiet", "--symref", "--", u->clean, "HEAD", "refs/heads/*", "refs/tags/*", also,
		 NULL);
	if (fault(FAULT_FETCH_ASK, e) || git_start(&g, e))
		return -1;
	if (g.status)
		return remote_failed(&g, u, e);
	*out = (struct gitrefs){0};
	*out_head = NULL;
	for (char *p = g.out.p, *end; p && *p; p = end) {
		end = strchr(p, '\n');
		end = end ? (*end = 0, end + 1) : p + strlen(p);
		take_line(p, out, out_head);
	}
	if (!out->hex)
		out->hex = 40;
	gitrefs_sort(out);
	return 0;
}

// Edits from a to b, at most 9: enough to tell a slip of the finger.
static unsigned distance(const char *a, const char *b)
{
	unsigned row[64];
	size_t n = strlen(a), m = strlen(b);
	if (n > 60 || m > 60)
		return 9;
	for (size_t j = 0; j <= m; j++)
		row[j] = (unsigned)j;
	for (size_t i = 1; i <= n; i++) {
		unsigned diagonal = row[0];
		row[0] = (unsigned)i;
		for (size_t j = 1; j <= m; j++) {
			unsigned best =
				diagonal + (tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]));
			diagonal = row[j];
			best = row[j] + 1 < best ? row[j] + 1 : best;
			row[j] = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
		}
	}
	return row[m] < 9 ? row[m] : 9;
}

void remote_near(const struct gitrefs *r, const char *ref, struct buf *out)
{
	int shown = 0;
	for (unsigned far = 0; far <= 3 && shown < 4; far++)
		for (size_t i = 0; i < r->n && shown < 4; i++) {
			const char *name = r->list[i].name,
				   *s = strchr(name, '/') ? strchr(strchr(name, '/') + 1, '/') : NULL;
			unsigned d = s ? distance(ref, s + 1) : 9;
			bool part = s && strlen(ref) > 2 && strcasestr(s + 1, ref) && d > 2;
			if (far < 3 ? d != far : !(part && d > 2))
				continue;
			buf_fmt(out, "%s%.60s", shown++ ? ", " : "; did you mean ", s + 1);
		}
	if (shown)
		buf_byte(out, '?');
}
