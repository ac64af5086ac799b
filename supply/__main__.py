"""Write the bill of materials to a file."""

from __future__ import annotations

import sys
from pathlib import Path

from supply.bill import make_bill, to_json
from supply.pins import FILE, read_pins

if len(sys.argv) != 2:
    sys.exit("Say where to write it: python -m supply dist/sbom.cdx.json")
target = Path(sys.argv[1])
target.parent.mkdir(parents=True, exist_ok=True)
target.write_text(to_json(make_bill(read_pins(FILE.read_text("utf-8")))), "utf-8")
print(f"The bill of materials is in {target}.")
