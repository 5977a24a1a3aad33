// SPDX-License-Identifier: Apache-2.0
#include "model/treename.h"

#include "base/mem.h"
#include <string.h>
#include <strings.h>

unsigned treename_next_cp(const char *s, size_t n, size_t *at)
{
	const unsigned char *p = (const unsigned char *)s + *at;
	size_t left = n - *at, len = p[0] < 0x80 ? 1 : p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : p[0] >= 0xc2 ? 2 : 0;
	unsigned cp = len == 1 ? p[0] : len ? p[0] & (0x7fu >> len) : 0;
	bool bad = !len || len > left || p[0] > 0xf4;
	for (size_t i = 1; !bad && i < len; i++) {
		bad = (p[i] & 0xc0) != 0x80;
		cp = cp << 6 | (p[i] & 0x3f);
	}
	*at += bad ? 1 : len;
	return bad ? 0xdc00u + p[0] : cp;
}

// Unicode's default ignorables and the controls of direction, as far as they are in use.
static const struct {
	unsigned from, to;
	enum treename_hidden what;
} hidden[] = {
	{0x00ad, 0x00ad, HIDDEN_INVISIBLE},   {0x034f, 0x034f, HIDDEN_INVISIBLE},
	{0x061c, 0x061c, HIDDEN_BIDI},	      {0x115f, 0x1160, HIDDEN_INVISIBLE},
	{0x17b4, 0x17b5, HIDDEN_INVISIBLE},   {0x180b, 0x180f, HIDDEN_INVISIBLE},
	{0x200b, 0x200d, HIDDEN_INVISIBLE},   {0x200e, 0x200f, HIDDEN_BIDI},
	{0x2028, 0x2029, HIDDEN_INVISIBLE},   {0x202a, 0x202e, HIDDEN_BIDI},
	{0x2060, 0x2065, HIDDEN_INVISIBLE},   {0x2066, 0x2069, HIDDEN_BIDI},
	{0x206a, 0x206f, HIDDEN_INVISIBLE},   {0x3164, 0x3164, HIDDEN_INVISIBLE},
	{0xfe00, 0xfe0f, HIDDEN_INVISIBLE},   {0xfeff, 0xfeff, HIDDEN_INVISIBLE},
	{0xffa0, 0xffa0, HIDDEN_INVISIBLE},   {0xfff0, 0xfff8, HIDDEN_INVISIBLE},
	{0x1bca0, 0x1bca3, HIDDEN_INVISIBLE}, {0x1d173, 0x1d17a, HIDDEN_INVISIBLE},
	{0xe0000, 0xe0fff, HIDDEN_INVISIBLE},
};

enum treename_hidden treename_hidden(unsigned cp)
{
	for (size_t i = 0; i < countof(hidden); i++)
		if (cp >= hidden[i].from && cp <= hidden[i].to)
			return hidden[i].what;
	return HIDDEN_NONE;
}

// Compatibility forms that some file systems fold: full-width letters and dots, one-dot leader, ideographic stop.
static unsigned fold(unsigned cp)
{
	if (cp >= 0xff01 && cp <= 0xff5e)
		cp -= 0xfee0;
	if (cp == 0x2024 || cp == 0xfe52 || cp == 0xff61 || cp == 0x3002)
		cp = '.';
	if (cp == 0x0130 || cp == 0x0131)
		cp = 'i';
	if (cp == 0x0261) // latin small script g
		cp = 'g';
	return cp >= 'A' && cp <= 'Z' ? cp + 32 : cp;
}

bool treename_is_git(const char *name, size_t n)
{
	char plain[16];
	size_t k = 0;
	for (size_t at = 0; at < n && k < sizeof plain;) {
		unsigned cp = treename_next_cp(name, n, &at);
		if (treename_hidden(cp) || cp < 0x20 || cp == 0x7f)
			continue;
		cp = fold(cp);
		if (cp == ':' || cp == '\\') // a stream of it, or a path below it
			break;
		plain[k++] = cp < 0x80 ? (char)cp : '?';
	}
	while (k && (plain[k - 1] == '.' || plain[k - 1] == ' '))
		k--;
	if (k == 4 && !memcmp(plain, ".git", 4))
		return true;
	// NTFS short names: git~1 is what .git gets; the others may be taken by it when files come and go
	return k == 5 && !memcmp(plain, "git~", 4) && plain[4] >= '0' && plain[4] <= '9';
}

bool treename_path_has_git(const char *path)
{
	for (const char *p = path;; p++) {
		size_t n = strcspn(p, "/");
		if (treename_is_git(p, n))
			return true;
		p += n;
		if (!*p)
			return false;
	}
}

bool treename_is_odd(const char *name, size_t n)
{
	static const char *const devices[] = {"con",  "prn",  "aux",  "nul",  "com1", "com2",
					      "com3", "com4", "lpt1", "lpt2", "lpt3"};
	if (!n || memchr(name, '\\', n) || memchr(name, ':', n) || name[n - 1] == '.' || name[n - 1] == ' ')
		return true;
	const char *dot = memchr(name, '.', n);
	size_t stem = dot ? (size_t)(dot - name) : n;
	for (size_t i = 0; i < countof(devices); i++)
		if (strlen(devices[i]) == stem && !strncasecmp(devices[i], name, stem))
			return true;
	return false;
}
