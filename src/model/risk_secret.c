// SPDX-License-Identifier: Apache-2.0
// Lines that look like they hold a credential: known forms first, then a long random value beside a telling name.
#include "model/risk.h"

#include "base/mem.h"
#include <ctype.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#define VALUE_MIN 16u
#define VALUE_MAX 512u
#define BITS_MIN 3.3 // per character: words have less, keys more

// A prefix and how many characters of [A-Za-z0-9_-] follow at least.
static const struct {
	const char *prefix;
	size_t tail;
	const char *what;
} forms[] = {
	{"AKIA", 16, "an AWS access key"},	{"ASIA", 16, "an AWS access key"},
	{"ghp_", 36, "a GitHub token"},		{"gho_", 36, "a GitHub token"},
	{"ghu_", 36, "a GitHub token"},		{"ghs_", 36, "a GitHub token"},
	{"ghr_", 36, "a GitHub token"},		{"github_pat_", 40, "a GitHub token"},
	{"glpat-", 20, "a GitLab token"},	{"xoxb-", 20, "a Slack token"},
	{"xoxp-", 20, "a Slack token"},		{"xoxa-", 20, "a Slack token"},
	{"sk-ant-", 20, "an Anthropic key"},	{"sk-proj-", 20, "an OpenAI key"},
	{"sk_live_", 16, "a Stripe key"},	{"rk_live_", 16, "a Stripe key"},
	{"AIza", 35, "a Google API key"},	{"ya29.", 20, "a Google token"},
	{"npm_", 36, "an npm token"},		{"pypi-AgEI", 20, "a PyPI token"},
	{"hf_", 30, "a Hugging Face token"},	{"dop_v1_", 60, "a DigitalOcean token"},
	{"SG.", 22, "a SendGrid key"},		{"dckr_pat_", 20, "a Docker token"},
	{"age-secret-key-1", 50, "an age key"}, {"AGE-SECRET-KEY-1", 50, "an age key"},
};

static bool is_token(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-';
}

static const char *known_form(const char *p, size_t n)
{
	for (size_t i = 0; i < countof(forms); i++) {
		size_t len = strlen(forms[i].prefix), tail = 0;
		const char *hit = memmem(p, n, forms[i].prefix, len);
		if (!hit || (hit > p && is_token(hit[-1])))
			continue;
		for (const char *q = hit + len; q < p + n && is_token(*q); q++)
			tail++;
		if (tail >= forms[i].tail)
			return forms[i].what;
	}
	return NULL;
}

static bool has_word(const char *p, size_t n)
{
	static const char *const words[] = {"secret",  "token",	      "passw",	    "api_key",	  "apikey",
					    "api-key", "private_key", "credential", "access_key", "auth_key"};
	char low[256];
	size_t k = n < sizeof low ? n : sizeof low;
	for (size_t i = 0; i < k; i++)
		low[i] = (char)tolower((unsigned char)p[i]);
	for (size_t i = 0; i < countof(words); i++)
		if (memmem(low, k, words[i], strlen(words[i])))
			return true;
	return false;
}

static double bits_per_char(const char *p, size_t n)
{
	unsigned count[256] = {0};
	double bits = 0;
	for (size_t i = 0; i < n; i++)
		count[(unsigned char)p[i]]++;
	for (int i = 0; i < 256; i++)
		if (count[i])
			bits -= (double)count[i] / (double)n * log2((double)count[i] / (double)n);
	return bits;
}

static bool is_random(const char *p, size_t n)
{
	bool digit = false, letter = false;
	for (size_t i = 0; i < n; i++) {
		digit |= isdigit((unsigned char)p[i]) != 0;
		letter |= isalpha((unsigned char)p[i]) != 0;
	}
	return digit && letter && bits_per_char(p, n) >= BITS_MIN;
}

static bool is_value(char c)
{
	return is_token(c) || c == '+' || c == '/' || c == '=' || c == '.' || c == '~';
}

const char *risk_secret(const char *p, size_t n)
{
	if (memmem(p, n, "-----BEGIN ", 11) && memmem(p, n, "PRIVATE KEY", 11))
		return "a private key";
	const char *what = known_form(p, n);
	const char *sign = memchr(p, '=', n), *colon = memchr(p, ':', n);
	if (!sign || (colon && colon < sign))
		sign = colon;
	if (what || !sign || !has_word(p, (size_t)(sign - p)))
		return what;
	for (const char *q = sign + 1, *end = p + n; q < end;) {
		const char *from = q;
		while (q < end && is_value(*q))
			q++;
		size_t len = (size_t)(q - from);
		if (len >= VALUE_MIN && len <= VALUE_MAX && is_random(from, len))
			return "a credential: a long random value beside a telling name";
		q += q == from;
	}
	return NULL;
}
