#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what a double does not serve, read out of the vendor's own headers.

For each class of virtual methods that a double can implement, a class below the same name in a namespace `unserved`
overrides every pure virtual method with one that prints its name and aborts. Behind the last
method stand guards: a call of a slot that this version does not have ends the process with a sentence too. For each
enumeration that is handed over as an argument, `name_of` gives the name of a value, or null for one that this version
does not have.

usage: unserved.py OUTPUT FOLDER...     (FOLDERs are handed to the compiler with -I, in this order)
The output is made from the vendor's text and is never committed.
"""

import re
import subprocess
import sys

# Interfaces without an inner object: their slots are in their own table.
PLAIN = ["IParser", "IParserError"]

# Enumerations that the double is given as an argument or prints.
ENUMS = [
    "BuilderFlag",
    "ComputeCapability",
    "DataType",
    "DeviceType",
    "MemoryPoolType",
    "NetworkDefinitionCreationFlag",
    "OptProfileSelector",
    "ProfilingVerbosity",
]

# Slots behind the last method that end the process with a sentence.
GUARDS = 40

CLASS = re.compile(r"\n\s*class\s+(?:\[\[[^\]]*\]\]\s*)?(\w+)\s*(?::\s*public\s+\w+\s*)?\{(.*?)\n\s*\};", re.S)
METHOD = re.compile(r"virtual\s+([^;{}]*?)\b(\w+)\s*\(([^;{}]*?)\)\s*(const)?\s*(noexcept)?\s*=\s*0\s*;", re.S)
ENUM = re.compile(r"enum\s+class\s+(?:\[\[[^\]]*\]\]\s*)?(\w+)\s*:\s*\w+\s*\{(.*?)\}", re.S)


def preprocessed(folders):
    command = ["g++", "-std=c++17", "-E", "-P", "-x", "c++", "-"]
    for folder in folders:
        command += ["-I", folder]
    source = '#include "NvInfer.h"\n#include "NvOnnxParser.h"\n'
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout


def methods(body):
    """Return type, name, arguments, qualifiers of each pure virtual method, in order."""
    for returned, name, arguments, const, noexcept in METHOD.findall(body):
        if "~" in returned:
            continue
        returned = " ".join(re.sub(r"\[\[.*?\]\]", "", returned).split())
        arguments = " ".join(re.sub(r"\s*=\s*nullptr", "", arguments).split())
        yield returned, name, arguments, " ".join(filter(None, [const, noexcept]))


def unserved(name, body, namespace, out):
    found = list(methods(body))
    out.append(f"namespace {namespace} {{ namespace unserved {{")
    out.append(f"class {name} : public {namespace}::{name} {{")
    out.append("public:")
    for returned, method, arguments, qualifiers in found:
        # The vendor's class, not the one of the same name here.
        returned = re.sub(rf"\b({'|'.join(PLAIN)})\b", rf"::{namespace}::\1", returned)
        out.append(
            f"    {returned} {method}({arguments}) {qualifiers} override"
            f' {{ ::doubles::not_served("{name}::{method}"); }}'
        )
    # Every class has two destructor slots; methods that are not pure do not occur in these classes.
    slots = len(found) + 2
    for guard in range(GUARDS):
        out.append(
            f"    virtual void past_the_end_{guard}() noexcept"
            f' {{ ::doubles::past_the_end("{name}", {slots + guard}, {slots}); }}'
        )
    out.append("};")
    out.append("} }")


def names(enum, body, out):
    out.append(f"inline char const* name_of(nvinfer1::{enum} value) {{")
    out.append("    switch (value) {")
    for entry in body.split(","):
        entry = re.sub(r"\[\[.*?\]\]", "", entry).strip()
        match = re.fullmatch(r"(\w+)\s*(?:=\s*(\S+))?", entry)
        # A second name of an earlier value is no value of its own.
        if match and not (match[2] and match[2].startswith("k")):
            out.append(f'    case nvinfer1::{enum}::{match[1]}: return "{match[1][1:]}";')
    out.append("    }")
    out.append("    return nullptr;")
    out.append("}")


def main():
    output, folders = sys.argv[1], sys.argv[2:]
    text = preprocessed(folders)
    out = [
        "// Written by unserved.py from the vendor's headers: not to be committed.",
        "#pragma once",
        '#include "NvInfer.h"',
        '#include "NvOnnxParser.h"',
        "namespace doubles {",
        "[[noreturn]] void not_served(char const* method) noexcept;",
        "[[noreturn]] void past_the_end(char const* kind, int slot, int slots) noexcept;",
        "}",
    ]
    served = 0
    for name, body in CLASS.findall(text):
        if re.fullmatch(r"V[A-Z]\w+", name) and name != "VRoot" and list(methods(body)):
            unserved(name, body, "nvinfer1::apiv", out)
            served += 1
        elif name in PLAIN:
            unserved(name, body, "nvonnxparser", out)
            served += 1
    if served < 20:
        sys.exit(f"unserved.py: only {served} classes were found in the headers of {folders}: their form has changed")
    out.append("namespace doubles {")
    for name, body in ENUM.findall(text):
        if name in ENUMS:
            names(name, body, out)
    out.append("}")
    with open(output, "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
