#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks values against a JSON Schema. Standard input: {"schema": SCHEMA, "cases": [[IS_VALID, VALUE], …]}. Prints each value that is
valid and should not be, or the other way around, and then ends with 1; so does a schema that is none.
"""
import json
import sys

from jsonschema import Draft202012Validator as Validator

given = json.load(sys.stdin)
Validator.check_schema(given["schema"])
# The jsonschema of Python 3.8 does not resolve `#/…` beside a URN.
given["schema"].pop("$id", None)
validator = Validator(given["schema"])
failed = False
for is_valid, value in given["cases"]:
    if validator.is_valid(value) != is_valid:
        failed = True
        problems = [error.message for error in validator.iter_errors(value)]
        print(json.dumps(value), "is not valid:" if is_valid else "is valid", *problems)
sys.exit(failed)
