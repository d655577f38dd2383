# Everything a reader or contributor runs, from a plain python3: each target first makes the .venv it needs. It publishes nothing.
PYTHON ?= python3
PORT ?= 8000
PYTEST_ARGS ?= -q
WORKERS ?= auto

PY := .venv/bin/python
PIP := $(PY) -m pip --disable-pip-version-check -qq
COURSE := IPYTHONDIR=$(CURDIR)/.venv-course/ipython PYTHONPATH=src .venv-course/bin/python
SITE := _build/html
PDF := ctc-and-rnnt-differentiated
PDF_PACKAGES := latexmk texlive-xetex texlive-latex-extra texlive-fonts-recommended \
	fonts-texgyre fonts-texgyre-math fonts-dejavu-core librsvg2-bin

# Notebooks run in this project's Python, whatever kernels, profiles and startup files the user has.
export JUPYTER_PREFER_ENV_PATH := 1
export JUPYTER_PATH :=
export IPYTHONDIR := $(CURDIR)/.venv/ipython
export PYDEVD_DISABLE_FILE_VALIDATION := 1

.DEFAULT_GOAL := help
.PHONY: help book slides pdf pdf-packages offline onefile test test-slow test-course test-all test-exhaustive site-test serve assignments roster grade exam fences check-submission quizzes instructor lab bench accuracy conformance variants times claims vectors gpu kernels screenshots drift repository lint clean FORCE

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' Makefile

book: .venv/reader _build/inputs  ## run every notebook and build the site into _build/html; any warning fails
	@$(PY) tools/run_notebooks.py
	@# a failed build leaves no site behind, and the next one reports every warning again
	@$(PY) -c 'from jupyter_book.cli.main import main; main()' build . -q -W -n --keep-going \
		|| { rm -rf $(SITE) _build/.doctrees; echo "make book: the build failed; the cause is above." >&2; exit 1; }

slides: book  ## build the site; the slides are part of it
	@echo "$(SITE)/book/teaching/slides/index.html"

pdf: .venv/reader _build/inputs  ## make a PDF of the whole book in _build/pdf; needs LaTeX (see README)
	@for tool in latexmk xelatex rsvg-convert; do command -v $$tool > /dev/null || { \
		echo "make pdf needs $$tool. On Debian and Ubuntu: apt-get install $(PDF_PACKAGES)" >&2; exit 1; }; done
	@rm -rf _build/pdf
	@$(PY) tools/run_notebooks.py
	@# the site stays; a failed build reports every warning again next time
	@$(PY) -c 'from jupyter_book.cli.main import main; main()' build . -q -W -n --keep-going --builder latex \
		|| { rm -rf _build/latex _build/.doctrees; echo "make pdf: Sphinx failed; the cause is above." >&2; exit 1; }
	@cd _build/latex && max_print_line=10000 latexmk -pdfxe -silent -interaction=nonstopmode -halt-on-error $(PDF).tex > latexmk.out 2>&1 \
		|| { grep -A 8 '^!' $(PDF).log >&2; echo "make pdf: LaTeX failed; all it said is in _build/latex/$(PDF).log" >&2; exit 1; }
	@# what LaTeX only mentions: characters that no font has, references to nothing, lines 10 pt and more past the margin
	@! grep -E -A 2 'Missing character|(Reference|Citation|reference).* undefined|multiply.defined|Overfull .hbox \([0-9]{2,}\.' \
		_build/latex/$(PDF).log >&2 || { echo "make pdf: LaTeX left these faults in the pages." >&2; exit 1; }
	@mkdir -p _build/pdf && cp _build/latex/$(PDF).pdf _build/pdf/ && echo "_build/pdf/$(PDF).pdf"

pdf-packages:
	@echo $(PDF_PACKAGES)

test: .venv/dev  ## run the fast tests, some minutes on two cores
	$(PY) -m pytest -n $(WORKERS) $(PYTEST_ARGS)

test-slow: .venv/dev  ## run the slow tests
	$(PY) -m pytest -n $(WORKERS) -m "slow and not course and not exhaustive" $(PYTEST_ARGS)

test-course: .venv/dev .venv-course/ready  ## run the tests of the course, which grade wrong submissions of every assignment
	REQUIRE_COURSE=1 $(PY) -m pytest -n $(WORKERS) -m course $(PYTEST_ARGS)

test-all: .venv/dev .venv-course/ready  ## run the fast tests, the slow ones, the course's, and those of the site, which is built first
	REQUIRE_COURSE=1 $(PY) -m pytest -n $(WORKERS) -m "not exhaustive" $(PYTEST_ARGS)
	@$(MAKE) book
	@$(MAKE) site-test

test-exhaustive: .venv/dev  ## run what no other target does: more of what other tests try by few cases, for hours
	$(PY) -m pytest -n $(WORKERS) -m exhaustive $(PYTEST_ARGS)

site-test: .venv/dev  ## check the built site: links, alt text, marks, no outside request, the laboratory
	REQUIRE_SITE=1 $(PY) -m pytest -n $(WORKERS) --dist loadgroup $(PYTEST_ARGS) tests/website

offline: book  ## pack the site and the sources into one zip, to be opened from any folder
	@$(PY) tools/offline.py

onefile:  ## write the explicit recursions of both losses as one NumPy file to take along, into _build
	@$(PYTHON) book/_ext/one_file.py _build/ctc_rnnt_reference.py

serve: .venv/reader  ## serve the built site on this machine
	@test -f $(SITE)/index.html || { echo "There is no site yet: run 'make book' first." >&2; exit 1; }
	@echo "http://127.0.0.1:$(PORT)/  (Ctrl-C stops it)"
	@$(PY) -m http.server $(PORT) --bind 127.0.0.1 --directory $(SITE)

assignments: .venv-course/ready  ## make the students' versions of the assignments; STUDENTS=file: one for each name in it; ASSIGNMENT=name: only this one
	@$(COURSE) -m coursework.handing_out $(if $(STUDENTS),--students "$(STUDENTS)") \
		$(if $(ASSIGNMENT),--assignment "$(ASSIGNMENT)") $(if $(LMS),--lms "$(LMS)")

roster: .venv-course/ready  ## write the students of Moodle's or Canvas's table of grades, LMS=table.csv, into STUDENTS=roster.txt
	@test -n "$(LMS)" || { echo "Of which table? make roster LMS=table.csv" >&2; exit 1; }
	@$(COURSE) -m coursework.submissions.lms "$(LMS)" $(if $(STUDENTS),--students "$(STUDENTS)")

grade: .venv-course/ready  ## grade submissions, SUBMISSIONS=folder or zip, ASSIGNMENT=name if there are several, ALLOW=fence,... that need not stand; see course/README.md
	@test -n "$(SUBMISSIONS)" || { echo "Which ones? make grade SUBMISSIONS=folder" >&2; exit 1; }
	@$(COURSE) -m coursework.grading "$(SUBMISSIONS)" $(if $(ASSIGNMENT),--assignment "$(ASSIGNMENT)") \
		$(if $(STUDENTS),--students "$(STUDENTS)") $(if $(LMS),--lms "$(LMS)") $(if $(COLUMN),--column "$(COLUMN)") \
		$(if $(ALLOW),--allow "$(ALLOW)")

fences: .venv-course/ready  ## try each fence that `make grade` puts around submissions, and say what stands here
	@$(COURSE) -m coursework.fences

quizzes: book .venv-course/ready  ## write the quizzes as Moodle XML into _course, formulas as TeX
	@$(COURSE) -m coursework.quiz_export

check-submission: .venv/reader  ## for students: run NOTEBOOK=file as it is graded, and write a receipt to hand in with it
	@test -n "$(NOTEBOOK)" || { echo "Which one? make check-submission NOTEBOOK=notebooks/1_ctc_alpha.ipynb" >&2; exit 1; }
	@$(PY) -m coursework.home.handing_in "$(NOTEBOOK)"

exam: .venv-course/ready  ## draw an exam, TITLE="Midterm", a sheet and a key for each name in STUDENTS=file; KINDS=10, OPTIONS=1 for four options
	@test -n "$(TITLE)" || { echo 'Which one? make exam TITLE="Midterm" STUDENTS=roster.txt' >&2; exit 1; }
	@$(COURSE) -m coursework.exams "$(TITLE)" $(if $(STUDENTS),--students "$(STUDENTS)") $(if $(KINDS),--kinds $(KINDS)) $(if $(OPTIONS),--options)

instructor: book .venv-course/ready  ## pack solutions, slides, rubric and answer keys for an instructor; STUDENTS=file as above
	@$(COURSE) -m coursework.instructor_pack $(if $(STUDENTS),--students "$(STUDENTS)")

lab: .venv/reader  ## open the notebooks in JupyterLab; LAB_ARGS=... is passed on, as root LAB_ARGS=--allow-root
	@$(PY) -m jupyterlab --notebook-dir notebooks $(LAB_ARGS)

bench: .venv/reader  ## time the losses on the CPU, beside whatever peers are installed
	$(PY) benchmarks/times_cpu.py
	$(PY) benchmarks/long_utterance.py
	$(PY) benchmarks/pruning.py

accuracy: .venv/dev  ## measure how exact float32 lattices are, by method
	$(PY) benchmarks/accuracy.py

conformance: .venv/reader  ## grade other people's losses into data/conformance, each in an environment of its own; LIBRARIES="torch optax" for some
	-@$(PYTHON) peers/environments.py $(LIBRARIES)
	$(PY) peers/run.py $(LIBRARIES)
	$(PY) peers/calls.py $(LIBRARIES)

variants: .venv/dev  ## measure every loss by every kind of check, into data/variants.json
	$(PY) -m pytest -q -m slow tests/test_variants_table.py --write-table

equations: .venv/dev  ## examine the checks of the equations anew, into data/equations.json
	$(PY) -m pytest -q tests/equations --write-equations

times: .venv/reader  ## write how long each chapter takes into its opening, and print words, minutes, equations and lines
	@$(PY) book/_ext/reading_time.py --write

claims: .venv/reader  ## sort data/claims.json
	@$(PY) tools/sort_claims.py

speech: .venv/reader  ## synthesise the spoken corpus anew into data/speech; needs Debian's espeak-ng, flite and festival
	@$(PY) tools/speech_corpus

vectors: .venv/dev  ## compute the test vectors in 50 digits, into data/vectors
	@$(PY) -m reference_impl.conformance.vectors write

# PYTHON_WITH_TORCH=python3 takes the Python that is there, and installs nothing: for a machine without a network.
gpu: $(if $(PYTHON_WITH_TORCH),,.venv/dev)  ## on a machine with CUDA: tests, memory checker, accuracy and times, into data/; STAGE=one of them
	@$(or $(PYTHON_WITH_TORCH),$(PY)) benchmarks/gpu.py $(STAGE) $(GPU_ARGS)

kernels: .venv/reader  ## compile the Triton kernels for sm_90 and execute them, on any machine, into data/kernels_*.json
	$(PY) benchmarks/compile_kernels.py
	$(PY) benchmarks/execute_kernels.py

screenshots: .venv/dev  ## picture every page of the built site: light, dark, phone
	@$(PY) tools/screenshots.py

drift: book .venv/dev  ## run tests and chapters with the newest versions that pyproject.toml allows; report what differs
	@$(PY) tools/drift.py

repository: .venv/reader  ## write the public address, URL=https://..., into settings and notebooks; URL= takes it out
	@$(PY) tools/repository.py $(if $(filter command,$(origin URL)),"$(URL)")

lint: .venv/dev  ## check the style of code and notebooks, and that notebooks hold no outputs
	$(PY) -m ruff check .
	@find notebooks course -name '*.ipynb' -not -path '*/.ipynb_checkpoints/*' -exec $(PY) -m nbstripout --keep-id --verify {} +

clean:  ## remove the site, caches and environments
	rm -rf .venv .venv-newest .venv-course .venv-peers _build .pytest_cache .ruff_cache .hypothesis src/*.egg-info

.venv/reader: requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; \
	sys.exit(0 if (3, 11) <= v <= (3, 14) else f"Python 3.11 to 3.14 is needed; {sys.executable} is {v[0]}.{v[1]}. Try: make PYTHON=python3.12 ...")'
	@echo "Installing requirements.txt into .venv (torch is large: this may take minutes)"
	@$(PYTHON) -m venv .venv
	@$(PIP) install -r requirements.txt
	@$(PIP) install --no-deps -e .
	@mkdir -p .venv/ipython/profile_default
	@echo "c.IPKernelApp.log_level = 'ERROR'" > .venv/ipython/profile_default/ipython_kernel_config.py
	@touch $@

# Grading has an environment of its own: what nbgrader brings is neither the reader's nor the site's.
.venv-course/ready: course/requirements.txt
	@echo "Installing course/requirements.txt into .venv-course: once, some minutes on a slow network"
	@$(PYTHON) -m venv .venv-course
	@.venv-course/bin/python -m pip --disable-pip-version-check -qq install -r course/requirements.txt
	@touch $@

.venv/dev: .venv/reader requirements-dev.txt
	@echo "Installing requirements-dev.txt into .venv"
	@$(PIP) install -r requirements-dev.txt
	@touch $@

# Neither the notebook cache nor Sphinx sees a change in the package, the data or our extensions. So the build folder keeps
# a digest of them, and is removed, with the outputs of every notebook, when the digest differs.
_build/inputs: FORCE
	@digest=$$(find $(wildcard src data peers book/_ext requirements.txt _config.yml) -type f \
		-not -path '*/__pycache__/*' -not -path '*.egg-info/*' -exec cksum {} + | sort | cksum); \
	if [ "$$digest" != "$$(cat $@ 2>/dev/null)" ]; then rm -rf _build && mkdir -p _build && echo "$$digest" > $@; fi
