// SPDX-License-Identifier: Apache-2.0
// The package managers' own files. Each reader is tolerant: it looks for the few keys that name a registry and passes
// over the rest, since what it misses is merely not allowed.
#include "workspace/registries_int.h"

#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

static struct str unquote(struct str s)
{
	s = str_trim(s);
	if (s.n >= 2 && (s.p[0] == '"' || s.p[0] == '\'') && s.p[s.n - 1] == s.p[0])
		return (struct str){s.p + 1, s.n - 2};
	return s;
}

// "key = value"; false for comments, sections and lines without '='.
static bool key_value(struct str line, struct str *key, struct str *value)
{
	line = str_trim(line);
	if (!line.n || strchr("#;[", line.p[0]) || !memchr(line.p, '=', line.n))
		return false;
	str_next(&line, '=', key);
	*key = str_trim(*key);
	*value = unquote(line);
	return true;
}

static bool ends_with(struct str s, const char *end)
{
	size_t n = strlen(end);
	return s.n >= n && !memcmp(s.p + s.n - n, end, n);
}

static void take_npmrc(struct registries *r, bool private, struct str text)
{
	struct str line, key, value;
	while (str_next(&text, '\n', &line))
		if (!key_value(line, &key, &value))
			continue;
		else if (str_is(key, "registry"))
			registry_main(r, REGISTRY_NPM, value, private ? "npm_config_registry" : NULL);
		else if (ends_with(key, ":registry"))
			registry_more(r, REGISTRY_NPM, value);
}

static void take_words(struct registries *r, enum registry_tool t, struct str value)
{
	struct str word;
	while (str_next(&value, ' ', &word))
		registry_more(r, t, str_trim(word));
}

// pip reads '_' as '-'. A value goes on in indented lines.
static bool pip_key(struct str key, const char *want)
{
	if (key.n != strlen(want))
		return false;
	for (size_t i = 0; i < key.n; i++)
		if ((key.p[i] == '_' ? '-' : key.p[i]) != want[i])
			return false;
	return true;
}

static void take_pip_conf(struct registries *r, bool private, struct str text)
{
	struct str line, key, value;
	bool more = false;
	while (str_next(&text, '\n', &line)) {
		if (more && line.n && strchr(" \t", line.p[0])) {
			take_words(r, REGISTRY_PIP, str_trim(line));
			continue;
		}
		more = false;
		if (!key_value(line, &key, &value))
			continue;
		if (pip_key(key, "index-url"))
			registry_main(r, REGISTRY_PIP, value, private ? "PIP_INDEX_URL" : NULL);
		more = pip_key(key, "extra-index-url") || pip_key(key, "find-links");
		if (more)
			take_words(r, REGISTRY_PIP, value);
	}
}

static void take_go_env(struct registries *r, bool private, struct str text)
{
	struct str line, key, value;
	while (str_next(&text, '\n', &line))
		if (!key_value(line, &key, &value))
			continue;
		else if (str_is(key, "GOPROXY"))
			registry_go_proxy(r, value, private);
		else if (str_is(key, "GOSUMDB"))
			registry_go_sums(r, value, private);
}

// Walks the quoted strings of a TOML (or JSON) text. The key of a string is the word before the '=' in front of it; the
// elements of a list have the key of the list.
struct toml {
	struct str rest, line, section, key;
	const char *at; // in line
};

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static struct str word_before(const char *start, const char *end)
{
	while (end > start && !is_word(end[-1]))
		end--;
	const char *from = end;
	while (from > start && is_word(from[-1]))
		from--;
	return (struct str){from, (size_t)(end - from)};
}

static bool toml_line(struct toml *t)
{
	if (!str_next(&t->rest, '\n', &t->line))
		return false;
	t->line = str_trim(t->line);
	t->at = t->line.p;
	if (t->line.n && t->line.p[0] == '[' && t->line.p[t->line.n - 1] == ']') {
		t->section = t->line;
		t->key = (struct str){0};
	}
	return true;
}

// The next string of this line; comments end it.
static bool toml_string(struct toml *t, struct str *out)
{
	const char *end = t->line.p + t->line.n;
	for (const char *p = t->at; p < end && *p != '#'; p++) {
		if (*p == '=')
			t->key = word_before(t->at, p);
		if (*p != '"' && *p != '\'')
			continue;
		const char *close = memchr(p + 1, *p, (size_t)(end - p - 1));
		*out = (struct str){p + 1, close ? (size_t)(close - p - 1) : 0};
		t->at = close ? close + 1 : end;
		return close;
	}
	t->at = end;
	return false;
}

static bool line_has(struct str line, const char *word)
{
	return line.n && memmem(line.p, line.n, word, strlen(word));
}

// The [[index]] that is the default may say so after its url.
static bool uv_names_default(struct str text)
{
	struct str line, key, value;
	while (str_next(&text, '\n', &line))
		if (key_value(line, &key, &value) && str_is(key, "default") && str_is(value, "true"))
			return true;
	return false;
}

static void take_uv_toml(struct registries *r, bool private, struct str text)
{
	struct toml t = {.rest = text};
	struct str s;
	bool replaced = uv_names_default(text) && !registries_settled(r, REGISTRY_UV);
	while (toml_line(&t))
		while (toml_string(&t, &s))
			if (str_is(t.key, "index-url") || str_is(t.key, "default-index"))
				registry_main(r, REGISTRY_UV, s, private ? "UV_DEFAULT_INDEX" : NULL);
			else if (str_is(t.key, "url") || str_is(t.key, "extra-index-url") ||
				 str_is(t.key, "find-links"))
				registry_more(r, REGISTRY_UV, s);
	if (replaced)
		r->settled |= 1u << REGISTRY_UV;
}

static void take_cargo_toml(struct registries *r, struct str text)
{
	struct toml t = {.rest = text};
	struct str s;
	while (toml_line(&t))
		while (toml_string(&t, &s))
			if (str_is(t.key, "index") || str_is(t.key, "registry"))
				registry_index(r, s);
			else if (str_is(t.key, "replace-with") &&
				 (line_has(t.section, "crates-io") || line_has(t.line, "crates-io")))
				r->settled |= 1u << REGISTRY_CARGO;
}

static void take_strings(struct registries *r, enum registry_tool tool, struct str text)
{
	struct toml t = {.rest = text};
	struct str s;
	while (toml_line(&t))
		while (toml_string(&t, &s))
			registry_more(r, tool, s);
}

// The text between <tag> and </tag> from *at on; NULL when there is none left.
static const char *xml_element(const char *at, const char *tag, struct str *out)
{
	auto_free char *open = xasprintf("<%s>", tag), *close = xasprintf("</%s>", tag);
	const char *from = strstr(at, open), *to = from ? strstr(from, close) : NULL;
	if (!to)
		return NULL;
	from += strlen(open);
	*out = str_trim((struct str){from, (size_t)(to - from)});
	return to;
}

static char *without_comments(const char *text, size_t n)
{
	struct buf b = BUF_INIT(n + 1);
	while (n) {
		const char *from = memmem(text, n, "<!--", 4), *end = text + n;
		const char *to = from ? memmem(from + 4, (size_t)(end - from - 4), "-->", 3) : NULL;
		buf_add(&b, text, (size_t)((from ? from : end) - text));
		text = to ? to + 3 : end;
		n = (size_t)(end - text);
	}
	buf_str(&b, "");
	return buf_take(&b);
}

static bool mirrors_default(struct str of)
{
	struct str word;
	bool all = false;
	while (str_next(&of, ',', &word)) {
		word = str_trim(word);
		if (str_is(word, "!central"))
			return false;
		all |= str_is(word, "*") || str_is(word, "external:*") || str_is(word, "central");
	}
	return all;
}

void registry_xml(struct registries *r, const char *text, size_t n)
{
	auto_free char *s = without_comments(text, n);
	struct str value;
	for (const char *at = s; (at = xml_element(at, "url", &value));)
		registry_more(r, REGISTRY_MAVEN, value);
	for (const char *at = s; (at = xml_element(at, "mirrorOf", &value));)
		if (mirrors_default(value))
			r->settled |= 1u << REGISTRY_MAVEN;
}

// deb [options] URI suite component...
static void take_apt_list(struct registries *r, struct str text)
{
	struct str line, word;
	while (str_next(&text, '\n', &line)) {
		line = str_trim(line);
		str_next(&line, ' ', &word);
		if (!str_is(word, "deb") && !str_is(word, "deb-src"))
			continue;
		for (bool found = false, options = false; !found && str_next(&line, ' ', &word);) {
			options = options || (word.n && word.p[0] == '[');
			found = !options && word.n;
			if (options && ends_with(word, "]"))
				options = false;
		}
		registry_more(r, REGISTRY_APT, word);
	}
}

static bool field_is(struct str line, const char *name, struct str *value)
{
	size_t n = strlen(name);
	if (line.n <= n || line.p[n] != ':' || strncasecmp(line.p, name, n))
		return false;
	*value = str_trim((struct str){line.p + n + 1, line.n - n - 1});
	return true;
}

// One stanza after the other; URIs may stand before "Enabled: no".
static void take_apt_sources(struct registries *r, struct str text)
{
	struct str line, value;
	auto_buf struct buf uris = BUF_INIT(2 * text.n + 2);
	bool in_uris = false, enabled = true, more = true;
	while (more) {
		more = str_next(&text, '\n', &line);
		if (!more || !str_trim(line).n) {
			if (enabled)
				take_words(r, REGISTRY_APT, (struct str){buf_cstr(&uris), uris.n});
			buf_clear(&uris);
			in_uris = false;
			enabled = true;
			continue;
		}
		if (line.p[0] == '#')
			continue;
		bool same = strchr(" \t", line.p[0]);
		if (!same && field_is(line, "Enabled", &value))
			enabled = !str_is(value, "no") && !str_is(value, "false");
		in_uris = same ? in_uris : field_is(line, "URIs", &value);
		if (in_uris) {
			value = same ? str_trim(line) : value;
			buf_add(&uris, value.p, value.n);
			buf_byte(&uris, ' ');
		}
	}
}

// The quoted text after the first `mark` in s, *s going on behind it.
static bool quoted_after(struct str *s, const char *mark, struct str *out)
{
	const char *end = s->p + s->n, *at = memmem(s->p, s->n, mark, strlen(mark));
	while (at && at < end && *at != '"' && *at != '\'' && *at != '`')
		at++;
	const char *close = at && at < end ? memchr(at + 1, *at, (size_t)(end - at - 1)) : NULL;
	if (!close)
		return false;
	*out = (struct str){at + 1, (size_t)(close - at - 1)};
	*s = (struct str){close + 1, (size_t)(end - close - 1)};
	return true;
}

// ... Definition('registry', { default: 'URL', or in older ones define('registry', {
static void take_npm_own(struct registries *r, struct str text)
{
	struct str name, url;
	while (quoted_after(&text, "efin", &name))
		if (str_is(name, "registry") && text.n && text.p[0] == ',' && quoted_after(&text, "default:", &url)) {
			registry_main(r, REGISTRY_NPM, url, NULL);
			return;
		}
}

// PyPI = PackageIndex("URL", file_storage_domain="HOST")
static void take_pip_own(struct registries *r, struct str text)
{
	struct str url, host;
	if (registries_settled(r, REGISTRY_PIP) || !quoted_after(&text, "\nPyPI = PackageIndex(", &url))
		return;
	registry_main(r, REGISTRY_PIP, url, NULL);
	if (quoted_after(&text, "file_storage_domain=", &host))
		registry_host(r, REGISTRY_PIP, host);
}

// Every word that is a URL. The default may count beside them, so nothing is settled.
static void take_urls(struct registries *r, enum registry_tool t, struct str s)
{
	for (size_t i = 0; i + 8 < s.n; i++)
		if ((!i || strchr(" \t\r\n\"'(<>", s.p[i - 1])) && !memcmp(s.p + i, "http", 4))
			registry_more(r, t, (struct str){s.p + i, s.n - i});
}

// registry "https://…"; scopes are lines of their own.
static void take_yarnrc(struct registries *r, struct str s)
{
	struct str line;
	while (str_next(&s, '\n', &line)) {
		line = str_trim(line);
		if (line.n > 9 && !memcmp(line.p, "registry", 8) && strchr(" \t\"", line.p[8])) {
			struct str value = str_trim((struct str){line.p + 8, line.n - 8});
			if (value.n > 2 && value.p[0] == '"')
				value = (struct str){value.p + 1, value.n - 2};
			registry_main(r, REGISTRY_YARN, value, NULL);
		} else {
			take_urls(r, REGISTRY_YARN, line);
		}
	}
}

void registries_take_file(struct registries *r, enum registry_file kind, bool private, const char *text, size_t n)
{
	struct str s = {text, n};
	switch (kind) {
	case FILE_NPMRC:
		take_npmrc(r, private, s);
		break;
	case FILE_PIP_CONF:
		take_pip_conf(r, private, s);
		break;
	case FILE_UV_TOML:
		take_uv_toml(r, private, s);
		break;
	case FILE_CARGO_TOML:
		take_cargo_toml(r, s);
		break;
	case FILE_CARGO_INDEX:
		take_strings(r, REGISTRY_CARGO, s);
		break;
	case FILE_GO_ENV:
		take_go_env(r, private, s);
		break;
	case FILE_MAVEN_XML:
		registry_xml(r, text, n);
		break;
	case FILE_YARNRC:
		take_yarnrc(r, s);
		break;
	case FILE_GEMRC:
		take_urls(r, REGISTRY_GEM, s);
		break;
	case FILE_COMPOSER_JSON:
		take_urls(r, REGISTRY_COMPOSER, s);
		break;
	case FILE_NUGET_CONFIG:
		take_urls(r, REGISTRY_NUGET, s);
		break;
	case FILE_CONDARC:
		take_urls(r, REGISTRY_CONDA, s);
		break;
	case FILE_GRADLE:
		take_urls(r, REGISTRY_GRADLE, s);
		break;
	case FILE_APT_LIST:
		take_apt_list(r, s);
		break;
	case FILE_APT_SOURCES:
		take_apt_sources(r, s);
		break;
	case FILE_NPM_OWN:
		take_npm_own(r, s);
		break;
	case FILE_PIP_OWN:
		take_pip_own(r, s);
		break;
	}
}

void registries_take_env(struct registries *r, char *const *env)
{
	for (; env && *env; env++) {
		struct str value = str_of(*env), key;
		str_next(&value, '=', &key);
		if (!value.p)
			continue;
		if (str_is(key, "npm_config_registry") || str_is(key, "NPM_CONFIG_REGISTRY"))
			registry_main(r, REGISTRY_NPM, value, "npm_config_registry");
		else if (str_is(key, "PIP_INDEX_URL"))
			registry_main(r, REGISTRY_PIP, value, "PIP_INDEX_URL");
		else if (str_is(key, "PIP_EXTRA_INDEX_URL"))
			take_urls(r, REGISTRY_PIP, value);
		else if (str_is(key, "UV_DEFAULT_INDEX") || str_is(key, "UV_INDEX_URL"))
			registry_main(r, REGISTRY_UV, value, "UV_DEFAULT_INDEX");
		else if (str_is(key, "UV_EXTRA_INDEX_URL"))
			take_urls(r, REGISTRY_UV, value);
		else if (str_is(key, "GOPROXY"))
			registry_go_proxy(r, value, true);
		else if (str_is(key, "GOSUMDB"))
			registry_go_sums(r, value, true);
	}
}
