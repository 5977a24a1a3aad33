// SPDX-License-Identifier: Apache-2.0
#include "model/toolvars.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

const char *const tool_variables[] = {
	"RUSTUP_HOME", "VOLTA_HOME", "ASDF_DATA_DIR", "ASDF_DIR", "SDKMAN_DIR", "MISE_DATA_DIR", "PYENV_ROOT", "RBENV_ROOT", "NVM_DIR",
	"UV_PYTHON_INSTALL_DIR", "UV_TOOL_DIR", "PIPX_HOME", "JAVA_HOME", NULL,
};

static const char *const places[] = {
	".rustup", ".volta", ".asdf", ".asdf", ".sdkman", ".local/share/mise", ".pyenv", ".rbenv", ".nvm",
	".local/share/uv/python", ".local/share/uv/tools", ".local/share/pipx", NULL, NULL,
};
static_assert(sizeof places == sizeof tool_variables, "a place per variable");

const char *tool_variable_place(const char *name)
{
	for (size_t i = 0; tool_variables[i]; i++)
		if (!strcmp(tool_variables[i], name))
			return places[i];
	return NULL;
}
