// SPDX-License-Identifier: Apache-2.0
// Names of files that tools on the host run or trust, each with the reason.
#include "model/risk.h"

#include "base/mem.h"
#include <fnmatch.h>
#include <string.h>

#define RUNS "runs on the host"
// How a row is matched: a name anywhere, a directory's name anywhere, or the whole path.
enum where { NAME, DIR, PATH };
static const struct {
	enum where where;
	const char *glob, *flag, *reason;
} table[] = {
	{NAME, ".gitattributes", "git", "git runs filters and drivers that it names"},
	{NAME, ".gitmodules", "git", "git fetches and checks out what it names"},
	{NAME, ".gitconfig", "git", "git takes commands from it when it is included"},
	{NAME, ".lfsconfig", "git", "git-lfs sends credentials where it says"},
	{DIR, ".githooks", "hook", "git hooks run at commit, checkout and push"},
	{DIR, ".husky", "hook", "git hooks run at commit, checkout and push"},
	{NAME, "pre-commit", "hook", "git runs a file of this name where hooks are kept"},
	{NAME, "pre-push", "hook", "git runs a file of this name where hooks are kept"},
	{NAME, "pre-rebase", "hook", "git runs a file of this name where hooks are kept"},
	{NAME, "post-checkout", "hook", "git runs a file of this name where hooks are kept"},
	{NAME, "post-merge", "hook", "git runs a file of this name where hooks are kept"},
	{NAME, "post-commit", "hook", "git runs a file of this name where hooks are kept"},
	{NAME, "post-rewrite", "hook", "git runs a file of this name where hooks are kept"},
	{NAME, "commit-msg", "hook", "git runs a file of this name where hooks are kept"},
	{NAME, "prepare-commit-msg", "hook", "git runs a file of this name where hooks are kept"},
	{NAME, ".pre-commit-config.y*ml", "hook", "its hooks run at every commit"},
	{NAME, "lefthook.y*ml", "hook", "its hooks run at every commit"},
	{NAME, ".lintstagedrc*", "hook", "its commands run at every commit"},
	{PATH, ".github/workflows/*", "ci", "it runs in CI with the repository's credentials"},
	{PATH, ".github/actions/*", "ci", "it runs in CI with the repository's credentials"},
	{NAME, "action.y*ml", "ci", "it runs in CI with the repository's credentials"},
	{NAME, ".gitlab-ci*.y*ml", "ci", "it runs in CI with the repository's credentials"},
	{NAME, "bitbucket-pipelines.y*ml", "ci", "it runs in CI with the repository's credentials"},
	{NAME, "azure-pipelines*.y*ml", "ci", "it runs in CI with the repository's credentials"},
	{NAME, "Jenkinsfile*", "ci", "it runs in CI with the repository's credentials"},
	{NAME, ".travis.y*ml", "ci", "it runs in CI with the repository's credentials"},
	{NAME, ".drone.y*ml", "ci", "it runs in CI with the repository's credentials"},
	{NAME, "appveyor.y*ml", "ci", "it runs in CI with the repository's credentials"},
	{DIR, ".circleci", "ci", "it runs in CI with the repository's credentials"},
	{DIR, ".buildkite", "ci", "it runs in CI with the repository's credentials"},
	{DIR, ".woodpecker", "ci", "it runs in CI with the repository's credentials"},
	{NAME, "dependabot.y*ml", "ci", "it decides which updates are proposed and from where"},
	{NAME, "CODEOWNERS", "ci", "it decides who must agree to a change"},
	{NAME, "Makefile*", "build", "make runs its commands"},
	{NAME, "GNUmakefile", "build", "make runs its commands"},
	{NAME, "*.mk", "build", "make runs its commands"},
	{NAME, "CMakeLists.txt", "build", "cmake runs its commands while it configures"},
	{NAME, "*.cmake", "build", "cmake runs its commands while it configures"},
	{NAME, "meson.build", "build", "meson runs its commands while it configures"},
	{NAME, "configure", "build", "it runs before a build"},
	{NAME, "configure.ac", "build", "it becomes what runs before a build"},
	{NAME, "justfile", "build", "just runs its commands"},
	{NAME, ".justfile", "build", "just runs its commands"},
	{NAME, "Taskfile.y*ml", "build", "task runs its commands"},
	{NAME, "Rakefile", "build", "rake runs it"},
	{NAME, "Gemfile", "build", "bundler runs it"},
	{NAME, "*.gemspec", "build", "bundler runs it"},
	{NAME, "build.rs", "build", "cargo compiles and runs it during a build"},
	{PATH, "*.cargo/config*", "build", "cargo takes the linker and wrapper programs from it"},
	{NAME, "rust-toolchain*", "build", "rustup installs and runs the toolchain it names"},
	{NAME, "setup.py", "build", "pip runs it"},
	{NAME, "setup.cfg", "build", "setuptools takes commands and entry points from it"},
	{NAME, "conftest.py", "build", "pytest runs it before any test"},
	{NAME, "pytest.ini", "build", "pytest loads the plugins it names"},
	{NAME, "tox.ini", "build", "tox runs its commands"},
	{NAME, "noxfile.py", "build", "nox runs it"},
	{NAME, "sitecustomize.py", "build", "every python that has it on its path runs it"},
	{NAME, "usercustomize.py", "build", "every python that has it on its path runs it"},
	{NAME, "*.pth", "build", "python runs its import lines at every start"},
	{NAME, "pyvenv.cfg", "build", "it decides which python runs"},
	{NAME, "*.gradle", "build", "gradle runs it"},
	{NAME, "*.gradle.kts", "build", "gradle runs it"},
	{NAME, "gradle-wrapper.properties", "build", "the wrapper downloads and runs what it names"},
	{NAME, "gradle.properties", "build", "it sets the options of the Java machine that builds"},
	{NAME, "gradlew*", "build", "it is run to build"},
	{NAME, "mvnw*", "build", "it is run to build"},
	{DIR, ".mvn", "build", "maven loads extensions and options from it"},
	{NAME, "pom.xml", "build", "maven runs the plugins it names"},
	{NAME, "build.sbt", "build", "sbt runs it"},
	{NAME, "mix.exs", "build", "mix runs it"},
	{NAME, "Package.swift", "build", "swift runs it"},
	{NAME, "*.bazelrc", "build", "bazel takes options from it"},
	{NAME, "WORKSPACE*", "build", "bazel fetches and runs what it names"},
	{NAME, "MODULE.bazel", "build", "bazel fetches and runs what it names"},
	{NAME, "Directory.Build.*", "build", "msbuild runs its targets in every project below"},
	{NAME, "*.csproj", "build", "msbuild runs its targets"},
	{NAME, "nuget.config", "build", "it decides where packages come from"},
	{NAME, "binding.gyp", "build", "npm builds and runs it at install"},
	{NAME, "webpack.config.*", "build", "node runs it during a build"},
	{NAME, "vite.config.*", "build", "node runs it during a build"},
	{NAME, "rollup.config.*", "build", "node runs it during a build"},
	{NAME, "jest.config.*", "build", "node runs it during tests"},
	{NAME, "vitest.config.*", "build", "node runs it during tests"},
	{NAME, "babel.config.*", "build", "node runs it during a build"},
	{NAME, "eslint.config.*", "build", "editors and node run it"},
	{NAME, ".eslintrc*", "build", "editors and node run it"},
	{NAME, "prettier.config.*", "build", "editors and node run it"},
	{NAME, ".npmrc", "registry", "it decides where packages come from and who gets the token"},
	{NAME, ".yarnrc*", "registry", "it decides where packages come from and which yarn runs"},
	{NAME, ".pnpmfile.*js", "registry", "pnpm runs it at install"},
	{NAME, ".pypirc", "registry", "it decides where packages go and come from"},
	{NAME, "pip.conf", "registry", "it decides where packages come from"},
	{NAME, "requirements*.txt", "registry", "pip installs and runs what it names"},
	{NAME, "package-lock.json", "lock", "it decides which code is installed, and from where"},
	{NAME, "npm-shrinkwrap.json", "lock", "it decides which code is installed, and from where"},
	{NAME, "yarn.lock", "lock", "it decides which code is installed, and from where"},
	{NAME, "pnpm-lock.yaml", "lock", "it decides which code is installed, and from where"},
	{NAME, "bun.lock*", "lock", "it decides which code is installed, and from where"},
	{NAME, "Cargo.lock", "lock", "it decides which code is built, and from where"},
	{NAME, "poetry.lock", "lock", "it decides which code is installed, and from where"},
	{NAME, "uv.lock", "lock", "it decides which code is installed, and from where"},
	{NAME, "pdm.lock", "lock", "it decides which code is installed, and from where"},
	{NAME, "Pipfile.lock", "lock", "it decides which code is installed, and from where"},
	{NAME, "Gemfile.lock", "lock", "it decides which code is installed, and from where"},
	{NAME, "composer.lock", "lock", "it decides which code is installed, and from where"},
	{NAME, "go.sum", "lock", "it decides which code is trusted"},
	{NAME, "flake.lock", "lock", "it decides which code is built"},
	{NAME, "flake.nix", "shell", "nix and direnv run it on entering the directory"},
	{NAME, "shell.nix", "shell", "nix runs it on entering the directory"},
	{NAME, ".envrc", "shell", "direnv runs it on entering the directory"},
	{NAME, ".env*", "shell", "tools put its values into their environment"},
	{NAME, ".autoenv*", "shell", "it runs on entering the directory"},
	{NAME, "mise.toml", "shell", "mise runs tools and hooks it names"},
	{NAME, ".mise*.toml", "shell", "mise runs tools and hooks it names"},
	{NAME, ".tool-versions", "shell", "it decides which programs run"},
	{NAME, ".nvmrc", "shell", "it decides which node runs"},
	{NAME, ".bash*", "shell", "a shell " RUNS " reads it"},
	{NAME, ".zsh*", "shell", "a shell " RUNS " reads it"},
	{NAME, ".zprofile", "shell", "a shell " RUNS " reads it"},
	{NAME, ".profile", "shell", "a shell " RUNS " reads it"},
	{NAME, ".inputrc", "shell", "it can bind keys to commands"},
	{NAME, ".vimrc", "editor", "the editor runs its commands"},
	{NAME, ".exrc", "editor", "the editor runs its commands"},
	{NAME, ".nvim.lua", "editor", "the editor runs its commands"},
	{NAME, ".dir-locals.el", "editor", "the editor runs its commands"},
	{DIR, ".vscode", "editor", "the editor runs tasks and settings of it"},
	{DIR, ".idea", "editor", "the editor runs tasks and settings of it"},
	{DIR, ".fleet", "editor", "the editor runs tasks and settings of it"},
	{DIR, ".zed", "editor", "the editor runs tasks and settings of it"},
	{NAME, "*.code-workspace", "editor", "the editor runs tasks and settings of it"},
	{NAME, "*.sublime-project", "editor", "the editor runs build systems of it"},
	{NAME, ".mcp.json", "agent", "agents start the programs it names on the host"},
	{NAME, "mcp.json", "agent", "agents start the programs it names on the host"},
	{DIR, ".claude", "agent", "an agent on the host takes hooks, permissions and instructions from it"},
	{DIR, ".cursor", "agent", "an agent on the host takes permissions and instructions from it"},
	{DIR, ".codex", "agent", "an agent on the host takes permissions and instructions from it"},
	{DIR, ".gemini", "agent", "an agent on the host takes permissions and instructions from it"},
	{DIR, ".windsurf", "agent", "an agent on the host takes permissions and instructions from it"},
	{DIR, ".continue", "agent", "an agent on the host takes permissions and instructions from it"},
	{DIR, ".aider*", "agent", "an agent on the host takes commands from it"},
	{NAME, ".aider.conf.yml", "agent", "an agent on the host takes commands from it"},
	{NAME, ".cursorrules", "agent", "an agent on the host follows it"},
	{NAME, ".windsurfrules", "agent", "an agent on the host follows it"},
	{NAME, ".clinerules", "agent", "an agent on the host follows it"},
	{NAME, "copilot-instructions.md", "agent", "an agent on the host follows it"},
	{NAME, "AGENTS*.md", "agent", "an agent on the host follows it"},
	{NAME, "CLAUDE*.md", "agent", "an agent on the host follows it"},
	{NAME, "GEMINI*.md", "agent", "an agent on the host follows it"},
	{NAME, "SKILL.md", "agent", "an agent on the host follows it"},
	{NAME, ".skep.y*ml", "skep", "skep takes image, setup commands and policy from it"},
	{DIR, ".devcontainer", "container", "editors build and run it on the host"},
	{NAME, "devcontainer.json", "container", "editors run its initializeCommand on the host"},
	{NAME, "Dockerfile*", "container", "docker build runs its commands"},
	{NAME, "*.dockerfile", "container", "docker build runs its commands"},
	{NAME, "Containerfile*", "container", "a build runs its commands"},
	{NAME, "docker-compose*.y*ml", "container", "compose mounts and runs what it says"},
	{NAME, "compose*.y*ml", "container", "compose mounts and runs what it says"},
	{NAME, "Vagrantfile", "container", "vagrant runs it"},
	{NAME, "*.tf", "deploy", "terraform changes what runs elsewhere"},
	{NAME, "Procfile", "deploy", "its commands run the project"},
	{NAME, "*.service", "deploy", "systemd runs it where it is installed"},
	{NAME, "*.desktop", "deploy", "a desktop runs it at a click"},
};

static bool in_dir(const char *path, const char *glob)
{
	auto_free char *copy = xstrdup(path);
	for (char *p = copy, *slash; (slash = strchr(p, '/')); p = slash + 1) {
		*slash = 0;
		if (!fnmatch(glob, p, FNM_CASEFOLD))
			return true;
	}
	return false;
}

const char *risk_of_path(const char *path, size_t *at, const char **out_reason)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	for (; *at < countof(table); (*at)++) {
		const char *glob = table[*at].glob;
		bool hit = table[*at].where == NAME  ? !fnmatch(glob, name, FNM_CASEFOLD)
			   : table[*at].where == DIR ? in_dir(path, glob)
						     : !fnmatch(glob, path, FNM_CASEFOLD);
		if (hit) {
			*out_reason = table[*at].reason;
			return table[(*at)++].flag;
		}
	}
	return NULL;
}
