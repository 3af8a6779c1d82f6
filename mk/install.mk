# SPDX-License-Identifier: BSD-3-Clause
#
# install.mk - make install, make uninstall, make dist
#
# DESTDIR is put before every installed path; no installed file contains it. Each folder below can be
# set on the command line.

PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR ?= $(PREFIX)/share/man
DOCDIR ?= $(PREFIX)/share/doc/libgin
PKGCONFIGDIR ?= $(LIBDIR)/pkgconfig
CMAKEDIR ?= $(LIBDIR)/cmake/gin
INSTALL ?= install

# lib/base/plugin.c looks there. The SONAME is part of the name, so that two versions of libgin can
# be installed side by side.
PLUGINDIR = $(LIBDIR)/libgin$(SOVERSION)
# NCCL's headers come with the core's. Folders below come first: they are removed first.
HEADER_DIRS := $(patsubst include/gin/%/,%,$(patsubst products/nccl/%,%,$(foreach below,*/*/ */,\
	$(wildcard $(addsuffix /gin/$(below),include products/nccl/include)))))
headers-in = $(wildcard $(foreach root,include products/nccl/include,$(root)/gin/$(1)/*.h $(root)/gin/$(1)/*.cuh))
# Documents keep their places, because they link to each other.
DOCS := $(wildcard *.md docs/*.md products/*/*.md products/*/*/*.md)
docs-in = $(foreach doc,$(DOCS),$(if $(filter $(1)/,$(dir $(doc))),$(doc)))
# Folders below come first.
DOC_DIRS := $(shell printf '%s\n' $(sort $(patsubst %/,%,$(filter-out ./,$(dir $(DOCS))))) | sort -r)
OWN_DIRS = $(foreach dir,$(HEADER_DIRS),"$(INCLUDEDIR)/gin/$(dir)") "$(INCLUDEDIR)/gin" "$(PLUGINDIR)" "$(CMAKEDIR)" "$(DOCDIR)/examples" \
	$(foreach dir,$(DOC_DIRS) products,"$(DOCDIR)/$(dir)") "$(DOCDIR)"
PATHS = $(PREFIX)$(BINDIR)$(LIBDIR)$(INCLUDEDIR)$(MANDIR)$(DOCDIR)$(PKGCONFIGDIR)$(CMAKEDIR)$(DESTDIR)

# The installed files and their folders. contents(put) are the commands that install the files,
# contents(take) the commands that remove them.
define contents
$(call $(1)-files,644,$(INCLUDEDIR),include/gin.h include/gin_device.cuh)
$(call $(1)-files,644,$(INCLUDEDIR)/gin,$(wildcard include/gin/*.h include/gin/*.cuh))
$(foreach dir,$(HEADER_DIRS),$(call $(1)-files,644,$(INCLUDEDIR)/gin/$(dir),$(call headers-in,$(dir)))$(newline))
$(call $(1)-files,755,$(LIBDIR),$(LIB))
$(call $(1)-link,$(LIBDIR)/libgin.so.$(SOVERSION),$(notdir $(LIB)))
$(call $(1)-link,$(LIBDIR)/libgin.so,libgin.so.$(SOVERSION))
$(call $(1)-files,755,$(PLUGINDIR),$($(1)-plugins))
$(call $(1)-files,644,$(PLUGINDIR),$($(1)-bitcode))
$(call $(1)-files,644,$(PKGCONFIGDIR),$(BUILD)/install/gin.pc)
$(call $(1)-files,644,$(CMAKEDIR),$(BUILD)/install/gin-config.cmake \
	$(BUILD)/install/gin-config-version.cmake)
$(foreach dir,man1 man3 man7,$(call $(1)-files,644,$(MANDIR)/$(dir),$(wildcard man/$(dir)/* products/python/man/$(dir)/*))$(newline))
$(call $(1)-aliases,$(wildcard man/man?/* products/python/man/man?/*))
$(call $(1)-files,644,$(DOCDIR),LICENSE)
$(foreach dir,. $(DOC_DIRS),$(call $(1)-files,644,$(DOCDIR)/$(dir),$(call docs-in,$(dir)))$(newline))
$(call $(1)-files,644,$(DOCDIR)/examples,$(filter-out examples/demo,$(wildcard examples/*)))
$(foreach tool,$(TOOL_NAMES),$(call $(1)-tool,$(tool))$(newline))
$(foreach tool,$(TOOLS_CU),$(call $(1)-tool-cu,$(tool))$(newline))
$(call $(1)-files,755,$(BINDIR),tools/gin_perf_plot)
$(if $($(1)-ep),$(call ep-contents,$(1)))
$(if $($(1)-nccl),$(call nccl-contents,$(1)))
$(call $(1)-files,755,$(LIBDIR),$($(1)-ffi))
endef

# What `make python` has built.
put-ffi = $(wildcard $(FFI))
take-ffi = $(FFI)

# libgin-nccl: what `make nccl` has built, and a folder that can stand as NCCL_HOME.
define nccl-contents
$(call $(1)-files,755,$(LIBDIR),$(NCCL_LIB))
$(call $(1)-link,$(LIBDIR)/libgin-nccl.so.$(SOVERSION),$(notdir $(NCCL_LIB)))
$(call $(1)-link,$(LIBDIR)/libgin-nccl.so,libgin-nccl.so.$(SOVERSION))
$(call $(1)-nccl-home,$(LIBDIR)/gin-nccl)
endef
put-nccl = $(wildcard $(NCCL_LIB))
take-nccl = yes

# What `make bitcode` and `make bitcode-checks` have built.
put-bitcode = $(wildcard $(BITCODE) $(BITCODE_CHECKS))
take-bitcode = $(BITCODE) $(BITCODE_CHECKS)

# libgin-ep: what `make ep` has built.
define ep-contents
$(call $(1)-files,644,$(INCLUDEDIR),products/ep/include/gin_ep.h)
$(call $(1)-files,755,$(LIBDIR),$(EP_LIB))
$(call $(1)-link,$(LIBDIR)/libgin-ep.so.$(SOVERSION),$(notdir $(EP_LIB)))
$(call $(1)-link,$(LIBDIR)/libgin-ep.so,libgin-ep.so.$(SOVERSION))
$(call $(1)-files,644,$(PKGCONFIGDIR),$(BUILD)/install/gin-ep.pc)
$(foreach dir,man3 man7,$(call $(1)-files,644,$(MANDIR)/$(dir),$(wildcard products/ep/man/$(dir)/*))$(newline))
$(call $(1)-aliases,$(wildcard products/ep/man/man?/*))
$(call $(1)-files,644,$(DOCDIR)/examples,$(wildcard products/ep/examples/*))
endef
put-ep = $(wildcard $(EP_LIB))
take-ep = yes

# put-files MODE FOLDER FILES
put-files = $(if $(3),$(Q)$(INSTALL) -d "$(DESTDIR)$(2)" && \
	$(INSTALL) -m $(1) $(3) "$(DESTDIR)$(2)")
# put-aliases PAGES: a page of one line for each further name of a page
put-aliases = $(Q)umask 022 && awk -f man/aliases.awk $(1) | while read -r alias page; do \
	echo ".so $$page" >"$(DESTDIR)$(MANDIR)/$$alias" || exit; done
put-link = $(Q)ln -sf $(2) "$(DESTDIR)$(1)"
put-plugins = $(PMIX) $(RDMA) $(OFI) $(SELFTEST) $(STREAM)
put-tool = $(if $(filter $(1),$(TOOLS)),$(Q)umask 022 && $(INSTALL) -d "$(DESTDIR)$(BINDIR)" && \
	$(call link-tool,$(1),"$(DESTDIR)$(BINDIR)/$(1)",$(TOOL_RPATH)))

put-tool-cu = $(Q)umask 022 && $(INSTALL) -d "$(DESTDIR)$(BINDIR)" && \
	$(call cu-link,$(call cu-objects,$(1)),"$(DESTDIR)$(BINDIR)/$(notdir $(1))",$(TOOL_RPATH))

put-nccl-home = $(Q)umask 022 && $(call nccl-forward,"$(DESTDIR)$(1)/include") && \
	$(call nccl-links,"$(DESTDIR)$(1)",$(call from,$(1)/include,$(INCLUDEDIR)),../..,$(call from,$(1)/lib,$(PLUGINDIR)),$(put-plugins)) && \
	$(INSTALL) -d "$(DESTDIR)$(1)/abi" && $(INSTALL) -m 755 $(NCCL_ABI) "$(DESTDIR)$(1)/abi"
take-nccl-home = $(Q)rm -rf "$(DESTDIR)$(1)"

take-files = $(if $(3),$(Q)rm -f $(foreach file,$(3),"$(DESTDIR)$(2)/$(notdir $(file))"))
take-aliases = $(Q)awk -f man/aliases.awk $(1) | while read -r alias page; do \
	rm -f "$(DESTDIR)$(MANDIR)/$$alias"; done
take-link = $(Q)rm -f "$(DESTDIR)$(1)"
take-plugins = $(BUILD)/libgin-pmix.so $(BUILD)/libgin-rdma.so $(BUILD)/libgin-ofi.so $(SELFTEST) $(STREAM)
take-tool = $(Q)rm -f "$(DESTDIR)$(BINDIR)/$(1)"
take-tool-cu = $(call take-tool,$(notdir $(1)))

# from(FROM, FOLDER): relative path from FROM to FOLDER, so that an installation can be moved.
from = $(shell realpath -sm --relative-to="$(1)" "$(2)")

# The run path by which tools find libgin.so; empty for folders that the loader searches anyway.
TOOL_RPATH = $(if $(filter /usr/lib /usr/lib64 /usr/lib/%,$(LIBDIR)),,'$$ORIGIN/$(call from,$(BINDIR),$(LIBDIR))')

.PHONY: install uninstall install-paths dist

install: install-paths lib tools $(addprefix $(BUILD)/install/,gin.pc gin-ep.pc gin-config.cmake \
		gin-config-version.cmake)
	$(call contents,put)
	$(call say,INSTALL,"$(DESTDIR)$(PREFIX)")
	$(if $(NOT_BUILT),@echo "Not built$(comma) so not installed: $(NOT_BUILT).")
ifeq ($(PMIX),)
	@echo "libgin-pmix.so is not installed, because the build found no PMIx (libpmix-dev). Without" \
		"it, ranks started by mpirun or srun need config.allgather or GIN_ROOT."
endif
ifeq ($(RDMA),)
	@echo "libgin-rdma.so is not installed, because the build found no libibverbs-dev."
endif
ifeq ($(OFI),)
	@echo "libgin-ofi.so is not installed, because the build found no libfabric-dev."
endif

# Products that have not been built, with the target that builds each.
NOT_BUILT = $(subst |,$(space),$(subst $(space),$(comma)$(space),$(strip \
	$(if $(put-ep),,libgin-ep|(make|ep)) $(if $(put-nccl),,libgin-nccl|(make|nccl)) \
	$(if $(put-bitcode),,libgin_device.bc|(make|bitcode)) $(if $(put-ffi),,libgin-ffi.so|for|Python|(make|python)))))

uninstall: install-paths
	$(call contents,take)
	@for dir in $(OWN_DIRS); do [ ! -d "$(DESTDIR)$$dir" ] || \
		rmdir --ignore-fail-on-non-empty "$(DESTDIR)$$dir"; done

install-paths:
ifneq ($(strip $(foreach sign,' " ` \ | & ; $(comma) $$ \#,$(findstring $(sign),$(PATHS)))),)
	@echo 'make install: PREFIX, DESTDIR and other paths must not contain special characters of the shell' \
		>&2; exit 1
endif
	@for dir in "$(PREFIX)" "$(BINDIR)" "$(LIBDIR)" "$(INCLUDEDIR)" "$(MANDIR)" "$(DOCDIR)"; do \
		case $$dir in /*) ;; *) echo "make install: $$dir does not begin with a slash" >&2; \
		exit 1;; esac; done

# Always made again: the folders may differ from the last make install. A space is written "\ ".
in-pc = $(subst $(space),\\$(space),$(1))
$(BUILD)/install/%.pc: mk/%.pc.in always
	@mkdir -p $(@D)
	@sed -e 's|@PREFIX@|$(call in-pc,$(PREFIX))|; s|@VERSION@|$(VERSION)|' \
		-e 's|@LIBDIR@|$(call in-pc,$(subst $(PREFIX)/,$${prefix}/,$(LIBDIR)))|' \
		-e 's|@INCLUDEDIR@|$(call in-pc,$(subst $(PREFIX)/,$${prefix}/,$(INCLUDEDIR)))|' \
		$< >$@

$(BUILD)/install/%.cmake: mk/%.cmake.in always
	@mkdir -p $(@D)
	@sed -e 's|@LIBDIR@|$(call from,$(CMAKEDIR),$(LIBDIR))|; s|@VERSION@|$(VERSION)|' \
		-e 's|@INCLUDEDIR@|$(call from,$(CMAKEDIR),$(INCLUDEDIR))|' \
		-e 's|@SOVERSION@|$(SOVERSION)|' $< >$@

dist:
	@mkdir -p $(BUILD)
	$(Q)git archive --prefix=libgin-$(VERSION)/ -o $(BUILD)/libgin-$(VERSION).tar.gz HEAD
	$(call say,DIST,$(BUILD)/libgin-$(VERSION).tar.gz)
