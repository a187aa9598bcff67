"""The parts that engines on Cassandra share: queue generations, garbage, clock skew, settlements in steps."""
