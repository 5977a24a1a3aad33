// SPDX-License-Identifier: Apache-2.0
// Named sets of rules. Package registries are not named here: they are read from the package managers' own
// configuration (workspace/registries.h) and handed in.
#include "model/policy.h"

#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>

// Public forges: https, and ssh where they offer it.
static const char *const git_rules[] = {
	"github.com",
	"github.com:22",
	"api.github.com",
	"codeload.github.com",
	"ssh.github.com:443",
	"raw.githubusercontent.com",
	"objects.githubusercontent.com",
	"release-assets.githubusercontent.com",
	"github-cloud.githubusercontent.com",
	"gitlab.com",
	"gitlab.com:22",
	"altssh.gitlab.com:443",
	"bitbucket.org",
	"bitbucket.org:22",
	"api.bitbucket.org",
	"altssh.bitbucket.org:443",
	"codeberg.org",
	"codeberg.org:22",
	"git.sr.ht",
	"git.sr.ht:22",
	"dev.azure.com",
	"ssh.dev.azure.com:22",
	"ssh.dev.azure.com:443",
};

// Public model services: their API and where an agent's own login happens. No telemetry, no tenant wildcards.
static const char *const llm_rules[] = {
	"api.anthropic.com",
	"console.anthropic.com",
	"platform.claude.com",
	"claude.ai",
	"api.openai.com",
	"auth.openai.com",
	"chatgpt.com",
	"generativelanguage.googleapis.com",
	"aiplatform.googleapis.com",
	"cloudcode-pa.googleapis.com",
	"oauth2.googleapis.com",
	"api.mistral.ai",
	"codestral.mistral.ai",
	"api.groq.com",
	"api.deepseek.com",
	"openrouter.ai",
	"api.x.ai",
	"api.cohere.com",
	"api.together.xyz",
	"api.fireworks.ai",
	"api.cerebras.ai",
	"api.githubcopilot.com",
};

static int add_table(struct policy *p, const char *const *rules, size_t n, const char *from, struct err *e)
{
	for (size_t i = 0; i < n; i++)
		if (policy_add_text(p, rules[i], from, e))
			return -1;
	return 0;
}

static int add_registries(struct policy *p, char *const *registries, struct err *e)
{
	for (size_t i = 0; registries && registries[i]; i++) {
		struct str source = str_of(registries[i]), host = {0};
		str_next(&source, '\t', &host);
		auto_free char *rule = xstrndup(host.p, host.n);
		auto_free char *from = source.p && source.n ? xasprintf(FROM_REGISTRIES " (%s)", source.p)
							    : xstrdup(FROM_REGISTRIES);
		struct host_name h;
		uint16_t port;
		// A host and nothing more: the list comes from files, which must not smuggle in an address or a wildcard.
		if (host_port_parse(rule, host.n, &h, &port, e))
			return err_wrap(e, "registry");
		if (policy_add_text(p, rule, from, e))
			return -1;
	}
	return 0;
}

static int add_one(struct policy *p, struct str preset, char *const *registries, struct err *e)
{
	if (str_is(preset, "none"))
		return 0;
	if (str_is(preset, "registries"))
		return add_registries(p, registries, e);
	if (str_is(preset, "git"))
		return add_table(p, git_rules, countof(git_rules), "preset git", e);
	if (str_is(preset, "llm"))
		return add_table(p, llm_rules, countof(llm_rules), "preset llm", e);
	if (!str_is(preset, "open"))
		return err_set(e, ERR_INVALID,
			       "a network preset is none, registries, git, llm or open, or several joined with ','");
	p->open_all = true;
	return 0;
}

// "none" beside another could be meant either way, so it is neither.
static int check_joined(const char *preset, struct err *e)
{
	struct str rest = str_of(preset), one;
	bool none = false, other = false;
	while (str_next(&rest, ',', &one))
		*(str_is(one, "none") ? &none : &other) = true;
	return none && other ? err_set(e, ERR_INVALID, "the network preset none contradicts every other: leave it out, or give it alone") : 0;
}

int preset_add(struct policy *p, const char *preset, char *const *registries, struct err *e)
{
	struct str rest = str_of(preset), one;
	size_t before = p->n;
	bool open_before = p->open_all;
	if (check_joined(preset, e))
		return -1;
	while (str_next(&rest, ',', &one))
		if (add_one(p, one, registries, e)) {
			while (p->n > before)
				rule_done(&p->rules[--p->n]);
			p->open_all = open_before;
			return -1;
		}
	return 0;
}
