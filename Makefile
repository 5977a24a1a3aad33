# skep: plain GNU make.  make run | test | bench | install | help
#
# V=release (default) | dev | asan picks build/$V/. Adding a .c file to a room touches no build file.
# Two libcs: skep, skep-cell, skep-sudo and the test program that runs inside cells are linked statically with musl, with no
# other library (they start three times faster); the others are dynamic, with glibc.

V      ?= release
CC     ?= cc
MUSL   ?= musl-gcc
PREFIX ?= /usr/local
B      := build/$(V)
# make Q= shows every command
Q      ?= @
ARCH   := $(shell uname -m)

# rooms of each program, topmost first: the linker sees only what stands to the right
CELL_ROOMS := cell init isolate journal model base
SKEP_ROOMS := cli http model base
SKEPD_ROOMS := api engine backend workspace store journal http model base
GATE_ROOMS := gate http model base
SSH_ROOMS := ssh http model base
PULL_ROOMS := pull workspace model base
SUDO_ROOMS := sudo model base

WARN := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wformat=2 -Wvla -Wwrite-strings \
        -Wno-format-truncation -Wno-unknown-warning-option -Wno-gnu-statement-expression
HARD := -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection -fPIE
CFLAGS_release := -O2 $(HARD)
CFLAGS_dev     := -O1 -g -fPIE -DSKEP_CHECKS
CFLAGS_asan    := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -fPIE -DSKEP_CHECKS
CFLAGS  := -std=gnu17 -D_GNU_SOURCE -Isrc -I$(B)/gen $(WARN) $(CFLAGS_$(V)) -MMD -MP
LDFLAGS_release := -Wl,-z,relro,-z,now -Wl,--gc-sections
LDFLAGS_asan    := -fsanitize=address,undefined
LDFLAGS := $(LDFLAGS_$(V))
# musl: the kernel's own headers come after its own; stack protector needs no library there
MFLAGS  := -std=gnu17 -D_GNU_SOURCE -Isrc -I$(B)/gen $(WARN) -O2 -g -fPIE -fstack-protector-strong -fno-omit-frame-pointer -ffunction-sections -fdata-sections \
           -idirafter /usr/include -idirafter /usr/include/$(ARCH)-linux-gnu -MMD -MP
MFLAGS  += $(if $(filter asan,$(V)),-DSKEP_ASAN)
MUSL_SKIP := src/base/seal.c src/model/project.c src/http/ws.c

srcs  = $(wildcard src/$(1)/*.c)
gobjs = $(patsubst src/%.c,$(B)/glibc/%.o,$(call srcs,$(1)))
mobjs = $(patsubst src/%.c,$(B)/musl/%.o,$(filter-out $(MUSL_SKIP),$(call srcs,$(1))))
glibs = $(foreach r,$(1),$(B)/glibc/lib$(r).a)
mlibs = $(foreach r,$(1),$(B)/musl/lib$(r).a)
ROOMS := $(notdir $(patsubst %/,%,$(wildcard src/*/)))

PROGRAMS := $(B)/skep $(B)/skepd $(B)/skep-cell $(B)/skep-gate $(B)/skep-image $(B)/skep-pull $(B)/skep-repo $(B)/skep-review $(B)/skep-ssh $(B)/skep-sudo $(B)/skep-attack $(B)/skep-wrap

.PHONY: all deps check run test unit e2e attack fuzz bench soak install uninstall format lint clean help
.DELETE_ON_ERROR:
all: $(PROGRAMS)

$(B)/glibc/%.o: src/%.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -c $< -o $@
$(B)/musl/%.o: src/%.c
	@mkdir -p $(@D)
	$(Q)$(MUSL) $(MFLAGS) -c $< -o $@

define room_rule
$(B)/glibc/lib$(1).a: $(call gobjs,$(1))
	@mkdir -p $$(@D)
	@rm -f $$@ && ar rcs $$@ $$^
$(B)/musl/lib$(1).a: $(call mobjs,$(1))
	@mkdir -p $$(@D)
	@rm -f $$@ && ar rcs $$@ $$^
endef
$(foreach r,$(filter-out bin,$(ROOMS)),$(eval $(call room_rule,$(r))))

# Sanitizers, and clang's view of its code, want the libc that the compiler knows.
ifneq ($(filter asan clang,$(V)),)
$(B)/skep: $(B)/glibc/bin/skep.o $(call glibs,$(SKEP_ROOMS))
	$(Q)$(CC) $(LDFLAGS) -pie -o $@ $^ -lm
else
$(B)/skep: $(B)/musl/bin/skep.o $(call mlibs,$(SKEP_ROOMS))
	$(Q)$(MUSL) -static -Wl,--gc-sections -o $@ $^
endif
# the same program: an agent that puts one before its shell commands takes a name without arguments
$(B)/skep-wrap: $(B)/skep
	$(Q)ln -sf skep $@
$(B)/skepd: $(B)/glibc/bin/skepd.o $(call glibs,$(SKEPD_ROOMS))
	$(Q)$(CC) $(LDFLAGS) -pie -o $@ $^ -lmicrohttpd -lwslay -lsqlite3 -lsodium -lyaml -lz
$(B)/skep-gate: $(B)/glibc/bin/skep-gate.o $(call glibs,$(GATE_ROOMS))
	$(Q)$(CC) $(LDFLAGS) -pie -o $@ $^ -lssl -lcrypto -lnghttp2 -lcares
$(B)/skep-image: $(B)/glibc/bin/skep-image.o $(call glibs,workspace model base)
	$(Q)$(CC) $(LDFLAGS) -pie -o $@ $^ -larchive
$(B)/skep-pull: $(B)/glibc/bin/skep-pull.o $(call glibs,$(PULL_ROOMS))
	$(Q)$(CC) $(LDFLAGS) -pie -o $@ $^ -lcurl
$(B)/skep-repo: $(B)/glibc/bin/skep-repo.o $(call glibs,workspace model base)
	$(Q)$(CC) $(LDFLAGS) -pie -o $@ $^
$(B)/skep-review: $(B)/glibc/bin/skep-review.o $(call glibs,workspace model base)
	$(Q)$(CC) $(LDFLAGS) -pie -o $@ $^ -lgit2 -lm
$(B)/skep-ssh: $(B)/glibc/bin/skep-ssh.o $(call glibs,$(SSH_ROOMS))
	$(Q)$(CC) $(LDFLAGS) -pie -o $@ $^ -lssh
$(B)/skep-cell: $(B)/musl/bin/skep-cell.o $(call mlibs,$(CELL_ROOMS))
	$(Q)$(MUSL) -static -Wl,--gc-sections -o $@ $^
$(B)/skep-sudo: $(B)/musl/bin/skep-sudo.o $(call mlibs,$(SUDO_ROOMS))
	$(Q)$(MUSL) -static -s -Wl,--gc-sections -o $@ $^
$(B)/skep-attack: $(patsubst tests/attack/%.c,$(B)/musl/attack/%.o,$(wildcard tests/attack/*.c))
	$(Q)$(MUSL) -static -o $@ $^
$(B)/musl/attack/%.o: tests/attack/%.c
	@mkdir -p $(@D)
	$(Q)$(MUSL) $(MFLAGS) -c $< -o $@

# The seccomp filter is data made at build time from a table.
$(B)/gen/seccomp_filter.h: tools/gen-seccomp.c $(wildcard src/isolate/syscalls.def)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu17 -D_GNU_SOURCE -Isrc -Wall -Wextra -Werror -o $(B)/gen/gen-seccomp $<
	$(Q)$(B)/gen/gen-seccomp > $@
$(B)/musl/isolate/seccomp.o $(B)/glibc/isolate/seccomp.o: $(B)/gen/seccomp_filter.h

LIBEXEC := $(PREFIX)/libexec/skep
MANDIR  := $(PREFIX)/share/man
COMPL   := $(PREFIX)/share
APPARMOR := $(DESTDIR)/etc/apparmor.d

# Ubuntu 24.04 and later let only programs with a profile make user namespaces.
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(LIBEXEC) $(DESTDIR)$(MANDIR)/man1 $(DESTDIR)$(MANDIR)/man8
	install -m 755 $(B)/skep $(DESTDIR)$(PREFIX)/bin/skep
	ln -sf skep $(DESTDIR)$(PREFIX)/bin/skep-wrap
	install -m 755 $(B)/skepd $(B)/skep-cell $(B)/skep-gate $(B)/skep-image $(B)/skep-pull $(B)/skep-repo $(B)/skep-review $(B)/skep-ssh $(B)/skep-sudo $(B)/skep-attack $(DESTDIR)$(LIBEXEC)/
	install -m 644 man/*.1 $(DESTDIR)$(MANDIR)/man1/
	install -m 644 man/*.8 $(DESTDIR)$(MANDIR)/man8/
	install -d $(DESTDIR)$(COMPL)/bash-completion/completions $(DESTDIR)$(COMPL)/zsh/site-functions $(DESTDIR)$(COMPL)/fish/vendor_completions.d
	$(B)/skep completion bash > $(DESTDIR)$(COMPL)/bash-completion/completions/skep
	$(B)/skep completion zsh > $(DESTDIR)$(COMPL)/zsh/site-functions/_skep
	$(B)/skep completion fish > $(DESTDIR)$(COMPL)/fish/vendor_completions.d/skep.fish
	if [ -d $(APPARMOR) ] && [ -w $(APPARMOR) ]; then \
		sed 's|@LIBEXEC@|$(LIBEXEC)|' tools/apparmor.in > $(APPARMOR)/skep-cell; \
		if command -v apparmor_parser >/dev/null && [ -z "$(DESTDIR)" ]; then apparmor_parser -r $(APPARMOR)/skep-cell || true; fi; fi

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/skep $(DESTDIR)$(PREFIX)/bin/skep-wrap $(DESTDIR)$(MANDIR)/man1/skep*.1 $(DESTDIR)$(MANDIR)/man8/skep*.8 \
		$(DESTDIR)$(COMPL)/bash-completion/completions/skep $(DESTDIR)$(COMPL)/zsh/site-functions/_skep \
		$(DESTDIR)$(COMPL)/fish/vendor_completions.d/skep.fish
	rm -rf $(DESTDIR)$(LIBEXEC)
	if [ -f $(APPARMOR)/skep-cell ]; then rm -f $(APPARMOR)/skep-cell; fi

clean:
	rm -rf build

help:
	@echo "make            build into $(B)"
	@echo "make run        install what is missing, build, show a small session"
	@echo "make test       install what is missing, build, run every test (as root and as an ordinary user)"
	@echo "make bench      measure against the peers that are installed"
	@echo "make install    PREFIX=$(PREFIX) DESTDIR="
	@echo "make soak       long runs: fuzzing, sanitizers, races"

# Unit tests: tests/unit/ROOM_NOUN.c links ROOM and everything below it, nothing above.
UNIT_ORDER := api cli ssh sudo engine backend pull workspace store cell init isolate journal gate http model base
UNIT_LIBS  := -lcmocka -larchive -lgit2 -lm -lsqlite3 -lmicrohttpd -lwslay -lsodium -lyaml -lssl -lcrypto -lnghttp2 -lcares -lssh -lcurl -lz
below = $(if $(filter $(1),$(UNIT_ORDER)),$(shell echo $(UNIT_ORDER) | sed 's/.*\b$(1)\b/$(1)/'))
UNITS := $(patsubst tests/unit/%.c,$(B)/unit/%,$(wildcard tests/unit/*.c))
define unit_rule
$(B)/unit/$(1): tests/unit/$(1).c $(call glibs,$(call below,$(firstword $(subst _, ,$(1)))))
	@mkdir -p $$(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -pie -o $$@ $$< $$(filter %.a,$$^) $(UNIT_LIBS)
endef
$(foreach u,$(patsubst tests/unit/%.c,%,$(wildcard tests/unit/*.c)),$(eval $(call unit_rule,$(u))))
units: $(UNITS)
	@for t in $(UNITS); do $$t || exit 1; done

include mk/tests.mk mk/bench.mk

-include $(shell find $(B) -name '*.d' 2>/dev/null)
