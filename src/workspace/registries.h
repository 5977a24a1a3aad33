// SPDX-License-Identifier: Apache-2.0
// Where the package managers of this host or image fetch from, as they are configured themselves: npm, pip, uv, cargo,
// go, maven, apt, yarn 1, gem, composer, nuget, conda, gradle. No registry's name stands in this tree. Two sources, in this order:
//   1. configuration files, the caller's variables, and the installed files of npm, pip and go where these write down
//      their defaults (registries_from_files: quick, starts nothing);
//   2. where a tool keeps its default to itself, the tool is asked: registries_questions gives the commands to run,
//      registries_answer reads what they print. Both are pure; who runs them waits at most REGISTRIES_WAIT_MS.
// Only names count: a mirror written as an IP address is left out (--allow NAME=ADDR can name it). Forward proxies are
// left out on purpose, as one would open everything. A file of the project is never read here: it is hostile.
#pragma once
#include "base/buf.h"

#define REGISTRIES_WAIT_MS 3000
#define REGISTRIES_ANSWER (256u << 10) // bytes of an answer worth reading

enum registry_tool {
	REGISTRY_NPM,
	REGISTRY_PIP,
	REGISTRY_UV,
	REGISTRY_CARGO,
	REGISTRY_GO,
	REGISTRY_MAVEN,
	REGISTRY_APT,
	REGISTRY_YARN, // version 1; later ones have npm's or their own in .yarnrc.yml of the project
	REGISTRY_GEM,
	REGISTRY_COMPOSER,
	REGISTRY_NUGET,
	REGISTRY_CONDA,
	REGISTRY_GRADLE,
	REGISTRY_TOOLS
};
const char *registry_tool_name(enum registry_tool t);

enum registry_file {
	FILE_NPMRC,
	FILE_PIP_CONF,
	FILE_UV_TOML,
	FILE_CARGO_TOML,
	FILE_CARGO_INDEX, // config.json of a cached index: where it downloads from
	FILE_GO_ENV,
	FILE_MAVEN_XML,
	FILE_YARNRC,
	FILE_GEMRC,
	FILE_NUGET_CONFIG,
	FILE_CONDARC,
	FILE_COMPOSER_JSON,
	FILE_GRADLE, // init scripts
	FILE_APT_LIST,
	FILE_APT_SOURCES, // deb822
	FILE_NPM_OWN,	  // definitions.js of npm itself: the default
	FILE_PIP_OWN,	  // models/index.py of pip itself: the default, and the host of its files
};

struct registries {
	char **list; // "host[:port]\ttool", none twice; for preset_add. NULL when empty
	// K=V: makes a tool inside a cell use what the caller's own files say, as these are not seen there. No
	// credentials. NULL when empty
	char **env;
	char **indexes;	  // URLs of cargo's sparse indexes, each with a last '/': their config.json names the host of the files
	unsigned settled; // bit per tool: its default is known, or replaced by configuration
};
void registries_done(struct registries *r);
bool registries_settled(const struct registries *r, enum registry_tool t);

// Never fails: what can not be read is not there. home: the caller's; root: "/" or the directory of an image, whose
// links stay inside it; env: the caller's variables, K=V, or NULL.
void registries_from_files(const char *home, const char *root, char *const *env, struct registries *out);
// Pure: one file's content. private: it is not seen inside a cell. Files come in the order of precedence: the first
// that names a tool's registry settles it; later ones only add scopes and extra indexes.
void registries_take_file(struct registries *r, enum registry_file kind, bool private, const char *text, size_t n);
void registries_take_env(struct registries *r, char *const *env);

struct registry_question {
	enum registry_tool tool;
	char **argv; // owned; argv[0] is absolute. Needs the caller's PATH and HOME; stdin and stderr closed
};
// Questions about tools that are not settled, best first; further ones for a tool need no answer once it is settled.
struct registry_question *registries_questions(const struct registries *r, const char *home, const char *root,
					       size_t *out_n);
void registry_questions_free(struct registry_question *q, size_t n);
void registries_answer(struct registries *r, enum registry_tool t, const char *output, size_t n);

// All of the above at once. Runs the questions itself, all at a time, and looks into cargo's program
// as a last resort: blocking, for a child process, never for skepd's loop. Of the host's own cargo (root "/") an index
// that it has not used yet is asked, by curl, where its files are.
void registries_read(const char *home, const char *root, char *const *env, struct registries *out);
