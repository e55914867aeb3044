"""What a child is told on its standard input before it serves: one JSON document."""

from agents.fleet.provisioning.reading import read_spec as read_spec
from agents.fleet.provisioning.spec import MOST_BYTES as MOST_BYTES
from agents.fleet.provisioning.spec import BadSpec as BadSpec
from agents.fleet.provisioning.spec import Bus as Bus
from agents.fleet.provisioning.spec import Capabilities as Capabilities
from agents.fleet.provisioning.spec import Credential as Credential
from agents.fleet.provisioning.spec import Identity as Identity
from agents.fleet.provisioning.spec import Limits as Limits
from agents.fleet.provisioning.spec import Placement as Placement
from agents.fleet.provisioning.spec import ProvisionSpec as ProvisionSpec
from agents.fleet.provisioning.spec import Secrets as Secrets
from agents.fleet.provisioning.spec import SpecExecutor as SpecExecutor
from agents.fleet.provisioning.spec import SpecModelChoice as SpecModelChoice
from agents.fleet.provisioning.writing import write_spec as write_spec
