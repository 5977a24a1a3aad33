// SPDX-License-Identifier: Apache-2.0
#include "model/agent.h"

#include "base/mem.h"
#include <string.h>

// claude refuses to skip its questions as uid 0 unless it is told that it is in a sandbox.
static const struct agent agents[] = {
	{
		.name = "claude",
		.hosts = {"api.anthropic.com", "console.anthropic.com", "platform.claude.com", "claude.ai"},
		.secret = "ANTHROPIC_API_KEY", .secret_host = "api.anthropic.com", .secret_as = "header:x-api-key",
		.dir = ".claude", .dir_variable = "CLAUDE_CONFIG_DIR",
		.env = {"IS_SANDBOX=1", "DISABLE_AUTOUPDATER=1"},
	},
	{
		.name = "codex",
		.hosts = {"api.openai.com", "auth.openai.com", "chatgpt.com"},
		.secret = "OPENAI_API_KEY", .secret_host = "api.openai.com", .secret_as = "bearer",
		.dir = ".codex", .dir_variable = "CODEX_HOME",
	},
	{
		.name = "gemini",
		.hosts = {"generativelanguage.googleapis.com", "cloudcode-pa.googleapis.com", "oauth2.googleapis.com", "aiplatform.googleapis.com"},
		.secret = "GEMINI_API_KEY", .secret_host = "generativelanguage.googleapis.com", .secret_as = "header:x-goog-api-key",
		.dir = ".gemini",
	},
	{
		.name = "opencode",
		.preset = "llm",
		.hosts = {"models.dev"},
		.secret = "ANTHROPIC_API_KEY", .secret_host = "api.anthropic.com", .secret_as = "header:x-api-key",
		.dir = ".local/share/opencode",
	},
	{
		.name = "qwen",
		.hosts = {"dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com", "chat.qwen.ai", "portal.qwen.ai"},
		.secret = "DASHSCOPE_API_KEY", .secret_host = "dashscope.aliyuncs.com", .secret_as = "bearer",
		.dir = ".qwen",
	},
};

const struct agent *agent_find(const char *name)
{
	for (size_t i = 0; i < countof(agents); i++)
		if (!strcmp(agents[i].name, name))
			return &agents[i];
	return NULL;
}
