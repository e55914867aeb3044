"""``manage.py completion``: what a shell needs to complete the command line."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from typing_extensions import override

from crushsite.cli.completing import candidates
from crushsite.program_name import PROGRAM

_FUNCTION = PROGRAM.replace("-", "_")
SCRIPTS = {
    "bash": """\
_{function}() {{
    local IFS=$'\\n'
    COMPREPLY=($({program} completion --words "${{COMP_WORDS[@]:1:COMP_CWORD}}" 2>/dev/null))
    if [[ ${{#COMPREPLY[@]}} -eq 0 ]]; then compopt -o default; fi
}}
complete -F _{function} {program}
""",
    "zsh": """\
#compdef {program}
_{function}() {{
    local -a found
    found=("${{(@f)$({program} completion --words "${{(@)words[2,CURRENT]}}" 2>/dev/null)}}")
    if [[ -n "${{found[1]}}" ]]; then compadd -a found; else _files; fi
}}
if [[ -n "$functrace" || "$funcstack[1]" = "_{function}" ]]; then _{function} "$@"
else compdef _{function} {program}; fi
""",
    "fish": """\
function __{function}_words
    set -l words (commandline -opc) (commandline -ct)
    {program} completion --words $words[2..-1] 2>/dev/null
end
complete -c {program} -a '(__{function}_words)'
""",
}


class Command(BaseCommand):
    help = "Prints the completion of the command line for a shell: commands, options and ids."
    examples = (
        'completion bash  # in ~/.bashrc: eval "$(crush-server completion bash)"',
        'completion zsh   # in ~/.zshrc:  eval "$(crush-server completion zsh)"',
        "completion fish  # > ~/.config/fish/completions/crush-server.fish",
    )
    requires_system_checks = ()

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("shell", nargs="?", choices=sorted(SCRIPTS))
        # For the scripts: the words typed so far, the last of them perhaps incomplete.
        parser.add_argument("--words", nargs="...", help=SUPPRESS)

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        if options["words"] is not None:
            for candidate in candidates(options["words"]):
                self.stdout.write(candidate)
            return
        shell = options["shell"] or "bash"
        self.stdout.write(SCRIPTS[shell].format(program=PROGRAM, function=_FUNCTION), ending="")
